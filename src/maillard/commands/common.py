"""What the commands share: help, JSON, and a console that suits where the text goes."""

import json
import sys
from typing import Any, Final

import click

HELP: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def print_json(value: Any) -> None:
    """Plain data, as a program would read it."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


def console() -> Any:
    """A rich console on standard output.

    Piped output is not a terminal's: no colours, and wide enough that no formula is cut.
    """
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=160, no_color=True)
