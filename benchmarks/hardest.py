"""Regret at the hardest gap, for best means from near 0 to near 1, as docs/theory.md tells it.

    python benchmarks/hardest.py --measure      what is not in `hardest.json` yet; takes minutes
    python benchmarks/hardest.py --draw         tables, and the figure docs/near-certain.svg

One best arm among ten that are otherwise equal, 10,000 rounds. The gap is tried from √(vK/T) on,
v = μ_1(1−μ_1), in steps of √2 up to the largest that there is; what counts is the gap whose mean
regret is largest. Fourteen policies at μ_1 = 1/2, for the comparison; four of them at the others.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from timing import number, say, table

import maillard as mb
from maillard import theory
from maillard.files import replacing
from maillard.theory.known import THEORIES

RESULTS = Path(__file__).with_suffix(".json")
FIGURE = Path(__file__).parent.parent / "docs" / "near-certain.svg"

ARMS, HORIZON, TRIALS, SEED = 10, 10_000, 512, 2
BEST = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)
#: Two that know the variance of coins, two that know only that rewards lie in [0, 1].
FOUR = ("kl-ms", "kl-ucb", "ms", "moss")

#: Those that have bounds, and the others of the paper's table.
ALL = (*THEORIES, "exp-ts", "exp-ts+", "med", "dmed", "imed")

Entries = dict[str, dict[str, Any]]


def gaps(best: float) -> list[float]:
    """The gaps that are tried."""
    first = math.sqrt(best * (1.0 - best) * ARMS / HORIZON)
    steps = math.floor(2.0 * math.log2(best / first) + 1e-9)
    return [first * 2.0 ** (0.5 * step) for step in range(max(steps, 0) + 1) if first <= best]


def measure() -> None:
    """The largest mean regret of each policy over the gaps, and where it was."""
    entries = load()
    for best, slug in order():
        if f"{best} {slug}" not in entries:
            runs = []
            for gap in gaps(best):
                world = mb.Bernoulli([best, *[best - gap] * (ARMS - 1)])
                policy = THEORIES[slug].made(HORIZON) if slug in THEORIES else slug
                result = mb.simulate(
                    policy, world, HORIZON, TRIALS, SEED, checkpoints=2, progress=False
                )
                (curve,) = result.curves.values()
                regret, error = float(curve.regret[-1]), float(curve.error[-1])
                runs.append({"regret": regret, "error": error, "gap": gap, "trials": TRIALS})
            entries[f"{best} {slug}"] = max(runs, key=lambda run: run["regret"])
            say(f"{best} {slug}: {entries[f'{best} {slug}']}")
            names = [f"{b} {s}" for b, s in order()]
            text = json.dumps({name: entries[name] for name in names if name in entries}, indent=1)
            with replacing(RESULTS) as beside:
                beside.write_text(text + "\n", encoding="utf-8")


def order() -> list[tuple[float, str]]:
    """Best means and policies."""
    return [(best, slug) for best in BEST for slug in (ALL if best == 0.5 else FOUR)]


def load() -> Entries:
    """What has been measured."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


# --------------------------------------------------------------------------------------------------
# Telling


def cell(entry: dict[str, Any]) -> str:
    return f"{number(entry['regret'])} ± {entry['error']:.2g}"


def table_of_best_means(entries: Entries) -> str:
    """Regret at the hardest gap, a row for each best mean."""
    rows = []
    for best in BEST:
        share = number(2.0 * math.sqrt(best * (1.0 - best)))
        rows.append([f"{best:g}", share, *(cell(entries[f"{best} {slug}"]) for slug in FOUR)])
    return table(["μ_1", "2√v", *FOUR], rows)


def over_root(entries: Entries, slug: str) -> float:
    """Regret at μ_1 = 1/2 over √(KT)."""
    return float(entries[f"0.5 {slug}"]["regret"]) / math.sqrt(ARMS * HORIZON)


def table_of_policies(entries: Entries) -> str:
    """All policies at μ_1 = 1/2."""
    rows = [
        [slug, cell(entries[f"0.5 {slug}"]), f"{over_root(entries, slug):.2f}",
         f"{entries[f'0.5 {slug}']['gap']:.2g}"]
        for slug in ALL
    ]  # fmt: skip
    return table(["policy", "regret", "over √(KT)", "at the gap"], rows)


def draw(entries: Entries, path: Path) -> None:
    """Bounds and measured regret over μ_1."""
    from maillard.plots import write
    from maillard.theory_plots import adaptation_figure

    measured = {slug: [(b, entries[f"{b} {slug}"]["regret"]) for b in BEST] for slug in FOUR}
    tiny = np.geomspace(1e-4, 0.5, 25)
    best = np.concatenate([tiny, 1.0 - tiny[-2::-1]])
    bounds = {"kl-ms": largest_bound("kl-ms", best), "ms": largest_bound("ms", best)}
    write(adaptation_figure(best, bounds, measured, ARMS, HORIZON), path)


def largest_bound(slug: str, best: Any) -> list[float]:
    """The largest bound over all gaps, for each best mean."""
    shares = np.concatenate([[0.0], np.ones(ARMS - 1)])
    values = []
    for top in np.asarray(best).tolist():
        gap = np.geomspace(1e-4 * top, top, 120)[:, None]
        means = np.maximum(top - gap * shares, 0.0)
        bound = (
            theory.arm_pull_lemma(means, HORIZON, form="sharp")
            if slug == "kl-ms"
            else theory.ms(means, HORIZON)
        )
        values.append(float(np.minimum(bound, theory.trivial(means, HORIZON)).max()))
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure regret at the hardest gap.")
    parser.add_argument("--measure", action="store_true", help="simulate, for minutes")
    parser.add_argument("--draw", action="store_true", help="print the tables, write the figure")
    options = parser.parse_args()
    if options.measure:
        measure()
    if options.draw:
        entries = load()
        print(f"{table_of_best_means(entries)}\n\n{table_of_policies(entries)}")
        draw(entries, FIGURE)


if __name__ == "__main__":
    main()
