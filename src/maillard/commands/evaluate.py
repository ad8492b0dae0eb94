"""`maillard evaluate`: what another policy would have earned."""

from pathlib import Path
from typing import Any

import click

from .common import HELP, as_options, complete_estimators, complete_intervals, print_json
from .logs import arms_option, format_option, read_log


@click.command(context_settings=HELP)
@click.argument("path", nargs=-1, required=True)
@click.option(
    "--target",
    default="uniform",
    show_default=True,
    metavar="TARGET",
    help="uniform, an arm, arm=p,arm=p,…, a policy[:parameter=value,…] (replayed), or column:NAME.",
)
@click.option("--versus", metavar="TARGET", help="A second target: report the difference.")
@click.option(
    "--estimator",
    "estimators",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_estimators,
    help="An estimator, or all; may be repeated.  [default: the usual ones]",
)
@click.option(
    "--interval",
    "intervals",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_intervals,
    help="An interval, or all; may be repeated.  [default: the usual ones]",
)
@click.option("--level", default=0.95, show_default=True, help="Nominal coverage.")
@click.option("--rewards", nargs=2, type=float, metavar="L U", help="The range of the rewards.")
@click.option("--model", metavar="COLUMN", help="Column with predicted rewards of all arms.")
@click.option("--run", type=int, help="Evaluate one run of the log.")
@click.option("--clip", type=float, help="Where weights are clipped.  [default: √rows]")
@click.option("--blind", is_flag=True, help="The policy that wrote the log saw no context.")
@click.option("--seed", default=0, show_default=True, help="Seed of the bootstrap.")
@click.option("--plot", "figure", type=click.Path(path_type=Path), metavar="FILE",
              help="Draw estimates and weights: .png, .svg or .pdf.")  # fmt: skip
@format_option
@arms_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(
    path: tuple[str, ...],
    target: str,
    versus: str | None,
    estimators: tuple[str, ...],
    intervals: tuple[str, ...],
    rewards: tuple[float, float] | None,
    figure: Path | None,
    format: str | None,
    arms: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Say what another policy would have earned, from a log of choices and propensities.

    \b
    Examples:
      maillard evaluate log.parquet
      maillard evaluate log.parquet --target uniform --json
      maillard evaluate 'logs/*.parquet' --target red --versus green
      maillard evaluate log.parquet --target red=0.5,green=0.5 --plot value.png
    """
    from ..evaluation.evaluation import evaluate

    log = read_log(list(path) if len(path) > 1 else path[0], format, arms)
    stated = rewards or log.metadata.get("rewards")
    found = evaluate(
        log,
        _target(target, log.arms, stated),
        versus=None if versus is None else _target(versus, log.arms, stated),
        estimators=_names(estimators),
        intervals=_names(intervals),
        rewards=rewards,
        **options,
    )
    if figure is not None:
        found.plot(figure)
    print_json(found.to_dict()) if as_json else click.echo(as_options(found.summary()))


def _names(given: tuple[str, ...]) -> Any:
    if "all" in given:
        return "all"
    return given or None


def _policy(text: str, arms: tuple[Any, ...], rewards: Any) -> Any:
    """The policy that ``name:parameter=value,…`` describes, if it is one."""
    name, colon, _ = text.partition(":")
    if not colon or name == "column":
        return None
    from ..policies.catalogue import catalogue
    from ..simulation.specs import named

    if name not in catalogue():
        return None
    cls, parameters = named(text)
    if rewards is not None:
        parameters = {"rewards": tuple(rewards), **parameters}
    return cls(arms, **parameters)


def _target(text: str, arms: tuple[Any, ...], rewards: Any) -> Any:
    """A target as the command line writes it; labels that are integers are read as such."""
    labels = {str(label): label for label in arms}
    if text in labels:
        return labels[text]
    if (policy := _policy(text, arms, rewards)) is not None:
        return policy
    if "=" not in text or text.startswith("column:"):
        return text
    target: dict[Any, float] = {}
    for part in text.split(","):
        name, _, share = part.rpartition("=")
        label = labels.get(name.strip(), name.strip())
        if label in target:
            raise ValueError(f"--target {text}: arm {label!r} is named twice")
        try:
            target[label] = float(share)
        except ValueError:
            raise ValueError(
                f"--target {text}: {part!r} is not of the form arm=probability"
            ) from None
    return target
