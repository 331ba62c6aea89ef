"""See tasks_lib/README.md, floor `catalog`."""
