"""`maillard collect`: logs of simulated decisions."""

import time
import warnings
from pathlib import Path

import click

from ..tables import counted
from .common import (
    HELP,
    INTERRUPTED,
    as_options,
    complete_environments,
    complete_policies,
    print_json,
)


@click.command(context_settings=HELP)
@click.option("--policy", required=True, metavar="NAME[:PARAMETER=VALUE,…]", help="The policy.",
              shell_complete=complete_policies)  # fmt: skip
@click.option("--means", metavar="P,P,…", help="Bernoulli arms with these means.")
@click.option("--environment", metavar="NAME:PARAMETER=VALUE,…", help="Any environment.",
              shell_complete=complete_environments)  # fmt: skip
@click.option("--horizon", type=int, default=10_000, show_default=True, help="Rounds of a run.")
@click.option("--runs", type=int, default=1, show_default=True, help="Independent experiments.")
@click.option("--first", type=int, default=0, show_default=True, help="Number of the first run.")
@click.option("--seed", type=int, default=0, show_default=True, help="Equal seeds, equal logs.")
@click.option("--paired", is_flag=True, help="Policies share their random numbers.")
@click.option("--probabilities", is_flag=True, help="Log every arm's probability (slow).")
@click.option("--workers", type=int, help="Threads.  [default: all cores]")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR",
              help="Folder of Parquet files, or one .parquet file.")  # fmt: skip
@click.option("--append", is_flag=True, help="Add to the log that is in DIR.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--quiet", is_flag=True, help="Print nothing, and no progress.")
@click.pass_context
def command(
    ctx: click.Context,
    policy: str,
    means: str | None,
    environment: str | None,
    horizon: int,
    runs: int,
    first: int,
    seed: int,
    paired: bool,
    probabilities: bool,
    workers: int | None,
    out: Path,
    append: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Log every decision of simulated experiments, each with its exact propensity.

    \b
    Examples:
      maillard collect --policy kl-ms --means 0.8,0.9 --horizon 10000 --runs 100 --out DIR
      maillard collect --policy kl-ms --means 0.8,0.9 --runs 100 --first 100 --append --out DIR
      maillard collect --policy thompson:prior=1,1 --means 0.2,0.3 --out log.parquet

    The runs are those that `maillard simulate` makes of the same seed. Ctrl-C keeps the complete
    runs that are in DIR by then, says which, and exits with 130.
    """
    from ..simulation.collect import collect

    if (means is None) == (environment is None):
        raise ValueError("give --means or --environment")
    started = time.monotonic()
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            log = collect(
                policy,
                environment or f"bernoulli:means={means}",
                horizon,
                runs,
                seed,
                out,
                first=first,
                paired=paired,
                probabilities=probabilities,
                workers=workers,
                append=append,
                progress=False if quiet else None,
            )
    except KeyboardInterrupt:
        click.echo("maillard: interrupted before any run was written", err=True)
        ctx.exit(INTERRUPTED)
    for one in said:
        click.echo(f"maillard: {as_options(str(one.message))}", err=True)
    interrupted = any(str(one.message).startswith("interrupted") for one in said)
    seconds = time.monotonic() - started
    if as_json:
        print_json({"log": str(out), "rows": log.rows, "arms": list(log.arms), **log.metadata})
    elif not quiet and not interrupted:
        click.echo(
            f"{counted(runs, 'run')} of {counted(horizon, 'round')} in {seconds:.1f} s: "
            f"{out} holds {counted(log.rows or 0, 'row')}"
        )
    if interrupted:
        ctx.exit(INTERRUPTED)
