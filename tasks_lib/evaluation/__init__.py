"""See tasks_lib/README.md, floor `evaluation`."""
