"""Measure everything and write `docs/benchmarks.md` and its chart: what `make bench` runs.

    python benchmarks/page.py [--out DIR] [--rounds N] [--environments DIR]

Takes about 20 minutes, of which the peers' installation is a few the first time. The page is
written at the end, whole, and holds nothing that was not measured in this run.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import peers
import simulation
from timing import FEWER_ROUNDS, HORIZON, INSTANCES, ROUNDS, machine, say

import maillard as mb

DOCS = Path(__file__).parent.parent / "docs"

#: Colours that the colour-blind can tell apart (Okabe and Ito 2008), and a shape beside each.
LOOKS = {
    peers.SIMULATOR: ("#0072B2", "D"),
    peers.ONLINE: ("#56B4E9", "s"),
    "river": ("#009E73", "^"),
    "coba": ("#E69F00", "v"),
    "SMPyBandits": ("#D55E00", "o"),
    "SMPyBandits, kl compiled": ("#D55E00", "X"),
    "MABWiser": ("#CC79A7", "P"),
    "pybandits": ("#000000", "*"),
    peers.YARDSTICK: ("#000000", "|"),
}

PAGE = """\
# Benchmarks

Written by `make bench`: every number below was measured in one run, on one machine.

## What this page does not show

- **How good the decisions are.** The same name is not the same algorithm: constants, priors and
  ties differ between packages, and speed says nothing about regret. In particular SMPyBandits'
  ε-greedy follows the largest *total*, coba's UCB1 is UCB1-tuned, MOSS there is the anytime form
  and here the one with a horizon.
- **Like beside like, except in one column.** The peers decide one at a time in Python, which is
  what they are for; our simulator advances {lanes} trials at once in compiled code, which helps
  nobody who serves one visitor. For that compare *Maillard, online*: one decision, one reward, one
  update, and the decision carries its exact probability, which for Thompson sampling is an integral
  that the peers do not compute (coba's learners do know theirs).
- **What else the peers do.** Contexts, features, streaming, neighbourhoods, experiments as data:
  none of it is used here, and part of what they cost a step is the price of offering it. Their own
  ways to run in parallel or in batches are not used either.
- **Your problem.** Bernoulli rewards only, {horizon:,} rounds, means (0.8, 0.9) or ten from 0.1 to
  0.9. Where a reward comes from a database or a user, all of these are fast enough.
- **More than two digits.** CPU time, the least of {rounds} interleaved repetitions ({fewer} for
  what takes seconds), on a machine that other work may share; expect ±15 %, and look at ratios
  rather than at nanoseconds.

## Where it ran

{machine}
- peers, each with its own environment: {versions}

## Beside other packages

Choosing, a reward and learning from it, {horizon:,} times. The *yardstick* is a simulator of KL-MS
alone, written by hand against Numba (`benchmarks/sketch.py`). SMPyBandits looks for Numba in a
module that Numba dropped years ago and so runs its divergences in Python; *kl compiled* is what it
does when it is shown the way.

![Nanoseconds a step of each package, by policy, on a logarithmic scale](benchmarks.svg)

{peers}

## Every policy of the catalogue

Nanoseconds per step and core. *Path* is how the simulator runs a policy: `engine`, in compiled
blocks of {lanes} trials and SIMD code; `scalar`, in the same blocks, but with a rule that takes the
trials one by one, as top-two Thompson sampling needs an integral for every decision; `online`,
through the policy's online form where the engine cannot.

{steps}

## Many arms

{arms_rounds:,} rounds after each arm has been pulled once.

{arms}

## Threads

Elapsed time for the same trials. Threads do not wait for one another, but a machine with other work
has no second core to give them: at a load above its number of cores (see *Where it ran*) this table
says nothing.

{threads}

## Logs of decisions

`collect` with {runs} runs of {horizon:,} rounds: every decision with its propensity and reward.

{rows}

## First use

A new Python process that imports the library and simulates a policy for the first time, until the
result is there: with nothing compiled yet, and with what an earlier process left in the cache. Most
of the first is the engine, which all policies share. Other work on the machine lengthens even CPU
time here: compare with the last row.

{first_use}
"""


def text(simulated: simulation.Results, compared: peers.Results, where: list[str]) -> str:
    """The page."""
    return PAGE.format(
        lanes=simulation.LANES,
        horizon=HORIZON,
        rounds=simulated.rounds,
        fewer=min(FEWER_ROUNDS, simulated.rounds),
        arms_rounds=simulation.ROUNDS_PER_ARM,
        machine="\n".join(f"- {line}" for line in where),
        versions=peers.versions(),
        peers=peers.tables(compared),
        steps=simulation.table_of_steps(simulated),
        arms=simulation.table_of_arms(simulated),
        threads=simulation.table_of_threads(simulated),
        runs=simulation.RUNS,
        rows=simulation.table_of_rows(simulated),
        first_use=simulation.table_of_first_use(simulated),
    )


def chart(compared: peers.Results) -> Any:
    """A dot for each package and policy, one panel for each number of arms."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(INSTANCES), figsize=(10.0, 4.6), sharey=True, sharex=True)
    names = list(peers.POLICIES)
    for panel, arms in zip(panels, INSTANCES, strict=True):
        for place, (who, (colour, shape)) in enumerate(LOOKS.items()):
            aside = 0.07 * (place - len(LOOKS) // 2)  # so that none hides another
            places = [
                (value, row + aside)
                for row, name in enumerate(names)
                if (value := compared.nanoseconds.get((who, name, arms))) is not None
            ]
            if places:
                x, y = zip(*places, strict=True)
                size = 130 if shape in "|*" else 62
                edge = {} if shape == "|" else {"edgecolors": "white", "linewidths": 0.6}
                panel.scatter(x, y, s=size, c=colour, marker=shape, label=who, zorder=3, **edge)
        panel.set_title(f"{arms} arms", loc="left")
        panel.set_xscale("log")
        panel.set_xlabel("ns a step (CPU time, logarithmic)")
        panel.set_yticks(range(len(names)), peers.POLICIES.values())
        panel.grid(axis="x", which="major", color="0.8")
        panel.grid(axis="y", color="0.92")
        panel.spines[["top", "right", "left"]].set_visible(False)
        panel.tick_params(length=0)
    panels[0].invert_yaxis()
    shown: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    figure.legend(
        list(shown.values()), list(shown), loc="outside lower center", ncols=5, frameon=False
    )
    figure.set_layout_engine("constrained")
    return figure


def write(page: str, figure: Any, out: Path) -> None:
    """Both files, each beside its place first and then moved there."""
    import matplotlib

    out.mkdir(parents=True, exist_ok=True)
    drawn, written = out / ".benchmarks.svg", out / ".benchmarks.md"
    try:
        with matplotlib.rc_context({"svg.hashsalt": "maillard"}):
            figure.savefig(drawn, format="svg", metadata={"Date": None})
        written.write_text(page, encoding="utf-8")
        os.replace(drawn, out / "benchmarks.svg")
        os.replace(written, out / "benchmarks.md")
    finally:
        drawn.unlink(missing_ok=True)
        written.unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure everything and write the page.")
    parser.add_argument("--out", type=Path, default=DOCS, metavar="DIR", help="where (docs/)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="repetitions (%(default)s)")
    peers.add_options(parser)
    options = parser.parse_args()
    where = machine()
    compared = peers.measure(peers.chosen(options), options.environments, options.rounds)
    simulated = simulation.measure(list(mb.catalogue()), options.rounds)
    write(text(simulated, compared, where), chart(compared), options.out)
    say(f"written: {options.out / 'benchmarks.md'} and benchmarks.svg")


if __name__ == "__main__":
    main()
