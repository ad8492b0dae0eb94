"""The command line, a file for each command: `maillard NAME` is `command` in `NAME.py`."""
