"""The command line: `maillard policies`, with more commands to come beside it.

Imports of anything heavy stand inside the commands, so that `maillard --help` answers at once.
"""

import json
import sys
from typing import Any

import click

from . import __version__

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _OneLineErrors(click.Group):
    """Misuse prints one line and exits with 2; never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ValueError as error:
            click.echo(f"maillard: {error}", err=True)
            ctx.exit(2)


@click.group(cls=_OneLineErrors, context_settings=_HELP)
@click.version_option(__version__, prog_name="maillard")
def main() -> None:
    """Multi-armed bandits whose every choice carries its exact probability.

    \b
    Examples:
      maillard policies                 the catalogue
      maillard policies kl-ms           one policy: formula, parameters, reference
      maillard policies --json          the same for programs
    """


@main.command(context_settings=_HELP)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def policies(name: str | None, as_json: bool) -> None:
    """Show the catalogue of policies, or one of them.

    \b
    Examples:
      maillard policies
      maillard policies kl-ms
      maillard policies thompson --json
    """
    from .policies import catalogue

    if name is None:
        entries = [catalogue.describe(cls) for cls in catalogue.catalogue().values()]
        _print_json(entries) if as_json else _print_table(entries)
    else:
        entry = catalogue.describe(catalogue.find(name))
        _print_json(entry) if as_json else _print_policy(entry)


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def _console() -> Any:
    from rich.console import Console

    # Piped output is not a terminal's: no colours, and wide enough that no formula is cut.
    return Console() if sys.stdout.isatty() else Console(width=160, no_color=True)


def _print_table(entries: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=f"{len(entries)} policies", title_justify="left")
    for column in ("name", "formula", "probabilities", "horizon", "reference"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for entry in entries:
        star = " *" if entry["experimental"] else ""
        table.add_row(
            entry["name"] + star,
            entry["formula"],
            entry["probabilities"],
            entry["horizon"],
            entry["reference"],
        )
    console = _console()
    console.print(table)
    console.print("* experimental. `maillard policies NAME` shows one in full.", highlight=False)


def _print_policy(entry: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console = _console()
    console.print(Text(f"{entry['name']} · {entry['title']}", style="bold"))
    console.print()
    console.print(Text(entry["description"]))
    console.print()
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    for key in ("formula", "setting", "probabilities", "horizon", "reference", "class"):
        facts.add_row(key, Text(entry[key]))
    console.print(facts)
    if entry["parameters"]:
        console.print()
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("parameter", "default", "allowed", "meaning"):
            table.add_column(column, overflow="fold")
        for spec in entry["parameters"]:
            default = "required" if spec["required"] else str(spec["default"])
            table.add_row(spec["name"], default, Text(spec["range"]), Text(spec["help"]))
        console.print(table)
    console.print()
    console.print(Text(f">>> import maillard as mb\n>>> {entry['example']}"))


if __name__ == "__main__":
    main()
