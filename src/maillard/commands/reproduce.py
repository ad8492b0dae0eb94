"""`maillard reproduce`: the experiments of the KL-MS paper, as a page."""

import warnings
from pathlib import Path

import click

from .common import HELP, INTERRUPTED, print_json


@click.command(context_settings=HELP)
@click.option("--quick", is_flag=True, help="Fewer trials: half a minute.")
@click.option("--full", is_flag=True, help="The paper's 2,000 trials of everything.")
@click.option("--out", type=click.Path(path_type=Path), default="report", show_default=True,
              metavar="DIR", help="Folder of the report.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Equal seeds, equal reports.")
@click.option("--workers", type=int, help="Threads.  [default: all cores]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: every number and verdict.")
@click.option("--quiet", is_flag=True, help="Print nothing, and no progress.")
@click.pass_context
def command(
    ctx: click.Context,
    quick: bool,
    full: bool,
    out: Path,
    seed: int,
    workers: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run every experiment of the KL-MS paper again and write a report, DIR/index.html.

    \b
    Examples:
      maillard reproduce                    the default: two or three minutes on two cores
      maillard reproduce --quick --out DIR
      maillard reproduce --full             as many trials as in the paper

    The report sets each printed number and claim beside ours, under two protocols: as the paper
    writes it, and as the authors' released code does it. The first run on a machine also compiles,
    which takes about a minute more. An earlier report in DIR is replaced once the new one is
    complete; Ctrl-C leaves it as it was and exits with 130.
    """
    from ..paper.reproduce import reproduce

    if quick and full:
        raise ValueError("give --quick or --full, not both")
    try:
        with warnings.catch_warnings():
            # An interrupted simulation says what it has: nothing that a report could use.
            warnings.filterwarnings("ignore", "interrupted", RuntimeWarning)
            report = reproduce(
                out,
                "quick" if quick else "full" if full else "default",
                seed=seed,
                workers=workers,
                progress=False if quiet else None,
                told=None if quiet else lambda line: click.echo(line, err=True),
            )
    except KeyboardInterrupt:
        click.echo("maillard: interrupted: no report was written", err=True)
        ctx.exit(INTERRUPTED)
    if as_json:
        print_json(report.to_dict())
    elif not quiet:
        for verdict, count in report.counts.items():
            click.echo(f"{count:4d}  {verdict}")
        click.echo(f"{report.path}: {report.seconds:.0f} s")
