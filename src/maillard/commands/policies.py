"""`maillard policies`: the catalogue."""

from typing import Any, Final

import click

from .common import HELP, complete_policies, console, print_json

#: On a terminal of fewer columns the table leaves to `maillard policies NAME` what is long.
NARROW: Final = 110


@click.command(context_settings=HELP)
@click.argument("name", required=False, shell_complete=complete_policies)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(name: str | None, as_json: bool) -> None:
    """Show the catalogue of policies, or one of them.

    \b
    Examples:
      maillard policies
      maillard policies kl-ms
      maillard policies thompson --json
    """
    from ..policies import catalogue

    if name is None:
        entries = [catalogue.describe(cls) for cls in catalogue.catalogue().values()]
        print_json(entries) if as_json else _print_table(entries)
    else:
        entry = catalogue.describe(catalogue.find(name))
        print_json(entry) if as_json else _print_policy(entry)


def _print_table(entries: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = console()
    table = Table(box=box.SIMPLE_HEAD, title=f"{len(entries)} policies", title_justify="left")
    columns = ["name", "formula", "probabilities", "horizon", "reference"]
    if out.width < NARROW:
        columns.remove("probabilities")
        columns.remove("reference")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for entry in entries:
        star = " *" if entry["experimental"] else ""
        table.add_row(entry["name"] + star, *(Text(entry[column]) for column in columns[1:]))
    out.print(table)
    out.print("* experimental. `maillard policies NAME` shows one in full.", highlight=False)


def _print_policy(entry: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(Text(f"{entry['name']} · {entry['title']}", style="bold"))
    out.print()
    out.print(Text(entry["description"]))
    out.print()
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    for key in ("formula", "setting", "probabilities", "horizon", "reference", "class"):
        facts.add_row(key, Text(entry[key]))
    out.print(facts)
    if entry["parameters"]:
        out.print()
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("parameter", "default", "allowed", "meaning"):
            table.add_column(column, overflow="fold")
        for spec in entry["parameters"]:
            default = "required" if spec["required"] else str(spec["default"])
            default = "none" if default == "None" else default
            table.add_row(spec["name"], default, Text(spec["range"]), Text(spec["help"]))
        out.print(table)
    out.print()
    out.print(Text(f">>> import maillard as mb\n>>> {entry['example']}"))
