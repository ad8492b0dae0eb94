"""`maillard simulate`: policies in environments, many trials each."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .common import (
    HELP,
    INTERRUPTED,
    complete_environments,
    complete_policies,
    console,
    print_json,
)

if TYPE_CHECKING:
    from ..simulation.plan import Plan
    from ..simulation.result import Result


@click.command(context_settings=HELP)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--policy", "policies", multiple=True, metavar="NAME[:PARAMETER=VALUE,…]",
              shell_complete=complete_policies,
              help="A policy; give several to compare them.")  # fmt: skip
@click.option("--means", multiple=True, metavar="P,P,…",
              help="Bernoulli arms with these means; again for another instance.")  # fmt: skip
@click.option("--environment", "environments", multiple=True, metavar="NAME:PARAMETER=VALUE,…",
              shell_complete=complete_environments,
              help="Any environment; again for another instance.")  # fmt: skip
@click.option("--horizon", type=int, multiple=True, help="Rounds of a trial.  [default: 10000]")
@click.option("--trials", type=int, help="Independent trials of each policy.  [default: 1000]")
@click.option("--seed", type=int, help="Equal seeds give equal results.  [default: 0]")
@click.option("--paired", is_flag=True, default=None, help="Policies share their random numbers.")
@click.option("--checkpoints", type=int, help="Rounds that are written down.  [default: 256]")
@click.option("--workers", type=int, help="Threads.  [default: all cores]")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR",
              help="Folder for results (Parquet) and figures.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with what is in DIR.")
@click.option("--log-x", is_flag=True, help="A logarithmic axis of rounds in the figure.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--quiet", is_flag=True, help="Print no table and no progress.")
@click.pass_context
def command(
    ctx: click.Context,
    file: Path | None,
    policies: tuple[str, ...],
    means: tuple[str, ...],
    environments: tuple[str, ...],
    horizon: tuple[int, ...],
    trials: int | None,
    seed: int | None,
    paired: bool | None,
    checkpoints: int | None,
    workers: int | None,
    out: Path | None,
    resume: bool,
    log_x: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Simulate policies, from options or from a TOML FILE; an option replaces what the file says.

    \b
    Examples:
      maillard simulate --policy kl-ms --policy thompson:prior=1,1 --means 0.8,0.9 \\
          --horizon 10000 --trials 2000 --out DIR
      maillard simulate --policy ms --environment gaussian:means=0.1,0.2,sd=0.5
      maillard simulate sweep.toml --out DIR --resume

    \b
    sweep.toml:
      policies = ["kl-ms", "thompson:prior=1,1", {policy = "kl-ms", booster = [2, 4]}]
      horizon = [1000, 10000]
      trials = 2000
      seed = 0                  # these and the next have defaults
      paired = false
      checkpoints = 256         # or a list of rounds
      spacing = "log"           # or "linear"
      quantiles = [0.05, 0.5, 0.95]

    \b
      [[environment]]
      environment = "bernoulli"
      means = [[0.8, 0.9], [0.2, 0.25]]

    \b
      [[environment]]
      environment = "delayed"
      rounds = [0, 100]
      inner = {environment = "bernoulli", means = [0.8, 0.9]}

    Where one value is meant, a list gives several: a policy for each value of a policy's parameter,
    and a run for each horizon and each environment. Two numbers for two arms are one value of
    means; a list of such lists is several. One run is written to DIR, several to DIR/run-1, …, and
    a table of all of them to DIR/results.parquet.

    Ctrl-C writes what is complete and exits with 130; --resume goes on to the same results.
    """
    from ..simulation.sweep import from_toml, plans

    options = {
        "policies": list(policies),
        "environment": [f"bernoulli:means={row}" for row in means] + list(environments),
        "horizon": list(horizon),
        "trials": trials,
        "seed": seed,
        "paired": paired,
        "checkpoints": checkpoints,
    }
    given = {key: value for key, value in options.items() if value not in (None, [])}
    runs = plans({**(from_toml(file) if file else {}), **given})
    if resume and out is None:
        raise ValueError("--resume needs --out, the folder of the run")
    try:
        results = _run_all(runs, workers, out, resume, False if quiet else None)
    except KeyboardInterrupt:
        click.echo("maillard: interrupted before any trial was complete", err=True)
        ctx.exit(INTERRUPTED)
    if out is not None:
        _write(results, out, len(runs), log_x)
    if as_json:
        entries = [result.to_dict() for result in results]
        print_json(entries[0] if len(runs) == 1 else {"runs": entries})
    elif not quiet:
        for result in results:
            console().print(result.summary())
    if len(results) < len(runs) or not results[-1].complete:
        click.echo(f"maillard: {_how_far(results, len(runs), out)}", err=True)
        ctx.exit(INTERRUPTED)


def _folder(out: Path, number: int, runs: int) -> Path:
    return out if runs == 1 else out / f"run-{number:0{len(str(runs))}d}"


def _run_all(
    runs: "list[Plan]", workers: int | None, out: Path | None, resume: bool, progress: bool | None
) -> "list[Result]":
    """The results, up to the run that was interrupted."""
    from ..simulation.run import run

    if out is not None and not resume:
        for number in range(1, len(runs) + 1):
            folder = _folder(out, number, len(runs))
            if (folder / "run.json").exists():
                raise ValueError(f"{folder} holds a run already: --resume it, or name another DIR")
    results: list[Result] = []
    for number, plan in enumerate(runs, start=1):
        folder_or_none = None if out is None else _folder(out, number, len(runs))
        try:
            results.append(
                run(plan, workers=workers, progress=progress, folder=folder_or_none, resume=resume)
            )
        except KeyboardInterrupt:
            if not results:
                raise
            break
        if not results[-1].complete:
            break
    return results


def _write(results: "list[Result]", out: Path, runs: int, log_x: bool) -> None:
    """Figures, and for several runs one table of all; each run has written its own."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        click.echo("maillard: no figures: pip install 'maillard[plots]'", err=True)
    else:
        for number, result in enumerate(results, start=1):
            result.plot(_folder(out, number, runs) / "regret.png", log_x=log_x)
    if runs > 1:
        from ..simulation.parquet import write_all

        write_all(results, out / "results.parquet")


def _how_far(results: "list[Result]", runs: int, out: Path | None) -> str:
    from ..simulation.run import how_much

    done = sum(result.complete for result in results)
    words = "interrupted: " + (f"{done} of {runs} runs are complete" if runs > 1 else "")
    if not results[-1].complete:
        words += ("; in the next " if runs > 1 else "") + how_much(results[-1])
    return words + ("; --resume goes on" if out is not None else "")
