"""Everything the flows do, one folder a stage; see README.md beside this file."""
