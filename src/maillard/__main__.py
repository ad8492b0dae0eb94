"""`python -m maillard` is the command line."""

from .cli import main

main()
