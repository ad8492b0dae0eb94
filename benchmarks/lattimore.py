"""Where minimax-optimal policies lose: the instance of Lattimore (2018, section 3), measured.

    python benchmarks/lattimore.py [--arms K …] [--whole K …] [--trials N]      measure
    python benchmarks/lattimore.py --draw                                       tables and figure

One best arm of mean 1/2, one of 1/2 − 1/(2K), K − 2 of mean 0, and K³ rounds. `--arms` simulates
the two good arms alone, with policies tuned to as many rounds as they would take the horizon for:
that is where the minimax ones lose, and takes seconds up to K = 64, minutes at 128. `--whole`
simulates all K arms. What is measured goes into `lattimore.json` beside this file, one entry for
each K, policy and kind of run; `--draw` prints the tables of docs/theory.md and writes its figure.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from timing import number, say, table

import maillard as mb
from maillard.files import replacing

RESULTS = Path(__file__).with_suffix(".json")
FIGURE = Path(__file__).parent.parent / "docs" / "lattimore.svg"

POLICIES = ("kl-ms", "kl-ucb", "moss", "kl-ucb++", "kl-ucb-switch")
#: Those that are tuned to the horizon, through T/K.
TUNED = ("moss", "kl-ucb++", "kl-ucb-switch")
BEST, BAD = 0.5, 0.0
TRIALS, SEED = 2048, 1

Entries = dict[str, dict[str, Any]]


def gap_of(arms: int) -> float:
    """Δ_2 = √(K/T) standard deviations, where T = K³ and the standard deviation is 1/2."""
    return 0.5 / arms


def measure_pair(arms: int, slug: str, trials: int) -> dict[str, Any]:
    """Regret from the second arm alone, and how many trials end with more than half of the most."""
    # What a tuned policy knows of K and T is T/K = K²: with two arms, that of 2K² rounds.
    policy: Any = (slug, {"horizon": 2 * arms**2}) if slug in TUNED else slug
    world = mb.Bernoulli([BEST, BEST - gap_of(arms)])
    result = mb.simulate(policy, world, arms**3, trials, SEED, checkpoints=2, progress=False)
    (curve,) = result.curves.values()
    most = gap_of(arms) * arms**3
    lost = curve.sample[-1] * curve.quanta.regret > 0.5 * most
    return {
        "trials": trials,
        "regret": float(curve.regret[-1]),
        "error": float(curve.error[-1]),
        "lost": float(lost.mean()),
        "median": float(curve.quantile(0.5)[-1]),
    }


def measure_whole(arms: int, slug: str, trials: int) -> dict[str, Any]:
    """Regret of all K arms, and its parts from the second and from the bad ones."""
    world = mb.Bernoulli([BEST, BEST - gap_of(arms), *[BAD] * (arms - 2)])
    policy: Any = (slug, {"horizon": arms**3}) if slug in TUNED else slug
    result = mb.simulate(policy, world, arms**3, trials, SEED, checkpoints=2, progress=False)
    (curve,) = result.curves.values()
    return {
        "trials": trials,
        "regret": float(curve.regret[-1]),
        "error": float(curve.error[-1]),
        "second": float(curve.pulls[-1][1] * gap_of(arms)),
        "bad": float(curve.pulls[-1][2:].sum() * (BEST - BAD)),
    }


def measure(pairs: Iterable[int], wholes: Iterable[int], trials: int) -> None:
    """Measure, writing down each number as it comes."""
    for kind, counts in (("pair", pairs), ("whole", wholes)):
        for arms in counts:
            for slug in POLICIES:
                run = measure_pair if kind == "pair" else measure_whole
                entry = run(arms, slug, trials)
                say(f"K = {arms}, {slug}, {kind}: {entry}")
                entries = load()
                entries[f"{kind} {arms} {slug}"] = entry
                with replacing(RESULTS) as beside:
                    text = json.dumps(dict(sorted(entries.items(), key=_in_order)), indent=1)
                    beside.write_text(text + "\n", encoding="utf-8")


def _in_order(item: tuple[str, Any]) -> tuple[str, int, int]:
    kind, arms, slug = item[0].split()
    return kind, int(arms), POLICIES.index(slug)


def load() -> Entries:
    """What has been measured."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def arms_of(entries: Entries, kind: str) -> list[int]:
    """The K that were measured."""
    return sorted({int(key.split()[1]) for key in entries if key.startswith(kind)})


# --------------------------------------------------------------------------------------------------
# Telling


def table_by_arms(entries: Entries, kind: str, part: Callable[[Any], str]) -> str:
    """Mean regret ± its standard error, and a part of it, for every K and policy."""
    rows = []
    for arms in arms_of(entries, kind):
        found = [entries[f"{kind} {arms} {slug}"] for slug in POLICIES]
        (trials,) = {entry["trials"] for entry in found}
        cells = [f"{number(e['regret'])} ± {e['error']:.2g} ({part(e)})" for e in found]
        rows.append([str(arms), f"{trials:,}", *cells])
    return table(["K", "trials", *POLICIES], rows)


def table_of_pairs(entries: Entries) -> str:
    """Mean regret from the second arm ± its standard error, and the share of lost trials."""
    return table_by_arms(entries, "pair", lambda entry: f"{entry['lost']:.0%}")


def table_of_wholes(entries: Entries) -> str:
    """Mean regret of all K arms, with the part from the bad ones."""
    return table_by_arms(entries, "whole", lambda entry: number(entry["bad"]))


def draw(entries: Entries, path: Path) -> None:
    """The figure of docs/theory.md."""
    from maillard.plots import write
    from maillard.theory_plots import crossover_figure

    arms = arms_of(entries, "pair")
    regret, error = (
        {slug: [entries[f"pair {k} {slug}"][name] for k in arms] for slug in POLICIES}
        for name in ("regret", "error")
    )
    write(crossover_figure(arms, regret, error), path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure regret on Lattimore's instance.")
    parser.add_argument(
        "--arms", nargs="*", type=int, default=[], metavar="K", help="two good arms"
    )
    parser.add_argument("--whole", nargs="*", type=int, default=[], metavar="K", help="all K arms")
    parser.add_argument("--trials", type=int, default=TRIALS, help="%(default)s by default")
    parser.add_argument("--draw", action="store_true", help="print the tables, write the figure")
    options = parser.parse_args()
    measure(options.arms, options.whole, options.trials)
    if options.draw:
        entries = load()
        print(f"{table_of_pairs(entries)}\n\n{table_of_wholes(entries)}")
        draw(entries, FIGURE)


if __name__ == "__main__":
    main()
