"""What the commands share: help, JSON, names for the shell, a console that suits its reader."""

import json
import re
import sys
from typing import Any, Final

import click

HELP: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

#: What a shell expects of a command that was interrupted: 128 + SIGINT.
INTERRUPTED: Final = 130


def print_json(value: Any) -> None:
    """Plain data, as a program would read it."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


#: How a message of the library calls an argument, and the option that it is here.
_ARGUMENTS: Final = {
    r"\bappend=True": "--append",
    r"\bfirst=": "--first ",
    r"\brewards=\(L, U\)": "--rewards L U",
    r"\b(arms|format|model)=(?=[,) ]|$)": r"--\1",
}


def as_options(text: str) -> str:
    """What the library says of its arguments, said of the command line's options."""
    for argument, option in _ARGUMENTS.items():
        text = re.sub(argument, option, text)
    return text


def console() -> Any:
    """A rich console on standard output.

    Piped output is not a terminal's: no colours, and wide enough that no formula is cut.
    """
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=160, no_color=True)


# --------------------------------------------------------------------------------------------------
# What the shell's completion offers


def complete_policies(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Names of policies that begin so."""
    from ..policies.catalogue import catalogue

    return [name for name in catalogue() if name.startswith(typed)]


def complete_environments(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Names of environments that begin so, with the colon that their parameters come after."""
    from ..environments.environment import REGISTRY

    names = (f"{name}:" for name in REGISTRY if name != "custom")
    return [name for name in names if name.startswith(typed)]


def complete_estimators(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Names of estimators that begin so."""
    from ..evaluation.catalogue import known_estimators

    return [name for name in (*known_estimators(contextual=True), "all") if name.startswith(typed)]


def complete_intervals(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Names of intervals that begin so."""
    from ..evaluation.catalogue import INTERVALS

    return [name for name in (*INTERVALS, "all") if name.startswith(typed)]
