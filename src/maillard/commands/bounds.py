"""`maillard bounds`: what theory says of a bandit's regret."""

from pathlib import Path

import click

from .common import HELP, complete_policies, console, print_json


@click.command(context_settings=HELP)
@click.option("--means", required=True, metavar="P,P,…", help="A mean in [0, 1] for each arm.")
@click.option("--horizon", default="10000", show_default=True, metavar="T",
              help="Rounds; any whole number, or one such as 1e50.")  # fmt: skip
@click.option("--policy", "policies", multiple=True, metavar="NAME",
              shell_complete=complete_policies,
              help="A policy; several for several.  [default: all with a bound]")  # fmt: skip
@click.option("--simulate", default=0, metavar="TRIALS", help="Simulate as many trials beside it.")
@click.option("--seed", default=0, show_default=True, help="Equal seeds, equal simulations.")
@click.option("--delta", type=float, help="Δ of KL-MS's Theorem 1.  [default: the best]")
@click.option("--c", type=float, help="c of KL-MS's Theorem 1.  [default: the best]")
@click.option("--worst-case", type=float, metavar="B",
              help="Regret that no instance exceeds, for a lower bound.  [default: √(KT)]",
              )  # fmt: skip
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE",
              help="Draw regret between its bounds: .png, .svg or .pdf.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(
    means: str,
    horizon: str,
    policies: tuple[str, ...],
    simulate: int,
    seed: int,
    delta: float | None,
    c: float | None,
    worst_case: float | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show lower and upper bounds on the regret of a bandit.

    \b
    Examples:
      maillard bounds --means 0.8,0.9 --horizon 10000
      maillard bounds --means 0.8,0.9 --policy kl-ms --policy kl-ucb --simulate 1000 --plot b.png
      maillard bounds --means 0.8,0.9 --c 0.25 --delta 0 --json
    """
    from ..theory import bounds

    if plot is not None:
        from ..plots import check_name

        check_name(plot)
    found = bounds(
        _numbers(means),
        _horizon(horizon),
        policies or None,
        simulate=simulate,
        seed=seed,
        delta=delta,
        c=c,
        worst_case=worst_case,
    )
    if plot is not None:
        found.plot(plot)
    if as_json:
        print_json(found.to_dict())
        return
    out = console()
    out.print(found.summary())
    out.print(
        f"C = Σ Δ/kl(μ_a, μ_1) = {found.asymptotic_constant:.6g}: Bernoulli regret over ln T, at "
        "the least, for T → ∞.",
        highlight=False,
    )


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"--means: {text!r} is not a list of numbers such as 0.8,0.9") from None


def _horizon(text: str) -> int | float:
    """A whole number however long, else a float."""
    word = text.replace("_", "")
    try:
        return int(word) if word.lstrip("+-").isdigit() else _whole(float(word))
    except ValueError:
        raise ValueError(f"--horizon: {text!r} is not a number of rounds such as 10000") from None


def _whole(value: float) -> int | float:
    return int(value) if value == value and abs(value) < 2.0**53 and value == int(value) else value
