"""`maillard logs`: look into logs of decisions, and turn them from one format into another."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..tables import counted
from .common import HELP, console, print_json

if TYPE_CHECKING:
    from ..logs import Log
    from ..logs.description import Description

_FORMATS = ("parquet", "arrow", "csv", "open-bandit", "dsjson")


@click.group(context_settings=HELP)
def command() -> None:
    """Look into logs of decisions, check them, and convert them.

    \b
    Examples:
      maillard logs describe DIR
      maillard logs check "logs/*.parquet"
      maillard logs convert decisions.dsjson decisions.parquet
    """


arms_option = click.option("--arms", metavar="LABEL,LABEL,…",
                           help="The arms' labels in their order, or their number.")  # fmt: skip
format_option = click.option("--format", type=click.Choice(_FORMATS),
                             help="What PATH is.  [default: as its ending says]")  # fmt: skip


def read_log(path: str | list[str], format: str | None, arms: str | None) -> "Log":
    """The log at a path, or at several."""
    from ..logs import Log

    return Log.read(path, format=format, arms=None if arms is None else _labels(arms))


def _labels(text: str) -> Any:
    words = [word.strip() for word in text.split(",")]
    if all(word.lstrip("-").isdigit() for word in words):
        return int(words[0]) if len(words) == 1 else [int(word) for word in words]
    return words


@command.command()
@click.argument("path")
@format_option
@arms_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def describe(path: str, format: str | None, arms: str | None, as_json: bool) -> None:
    """Show arms, rewards and propensities, and whether these can be true.

    \b
    Examples:
      maillard logs describe DIR
      maillard logs describe obd/random/all/all.csv --json

    The checks ask whether the arms can have been drawn from the logged probabilities. Their
    p-values hold for any policy, however it learnt, and are conservative.
    """
    found = read_log(path, format, arms).describe()
    print_json(found.to_dict()) if as_json else _print(found)


@command.command()
@click.argument("path")
@format_option
@arms_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(path: str, format: str | None, arms: str | None, as_json: bool) -> None:
    """Read a log whole and name the first rows that cannot be right.

    \b
    Examples:
      maillard logs check log.parquet
      maillard logs check "logs/*.parquet"
    """
    log = read_log(path, format, arms).check()
    if as_json:
        print_json({"log": path, "rows": log.rows})
    else:
        click.echo(f"{path}: {counted(log.rows or 0, 'row')}, nothing wrong")


@command.command()
@click.argument("source")
@click.argument("target", type=click.Path(path_type=Path))
@format_option
@click.option(
    "--to",
    type=click.Choice(_FORMATS),
    help="What TARGET shall be.  [default: as its ending says; a folder of Parquet]",
)
@click.option("--append", is_flag=True, help="Add to the log in the folder TARGET.")  # fmt: skip
@arms_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def convert(
    source: str,
    target: Path,
    format: str | None,
    to: str | None,
    append: bool,
    arms: str | None,
    as_json: bool,
) -> None:
    """Write the log SOURCE again as TARGET, in another format or as one file.

    \b
    Examples:
      maillard logs convert decisions.dsjson decisions.parquet
      maillard logs convert all.csv all.parquet --format open-bandit
      maillard logs convert "day-*.parquet" DIR --append
    """
    log = read_log(source, format, arms)
    log.write(target, format=to, append=append)
    if as_json:
        print_json({"log": str(target), "rows": len(log)})
    else:
        click.echo(f"{target}: {counted(len(log), 'row')}")


# --------------------------------------------------------------------------------------------------


def _print(found: "Description") -> None:
    from rich.text import Text

    from ..logs import summary

    out = console()
    out.print(summary.arms(found))
    out.print(summary.propensities(found))
    for sentence, suspicious in summary.sentences(found):
        out.print(Text(sentence, style="bold red" if suspicious else ""))
