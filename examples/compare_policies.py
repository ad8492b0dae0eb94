"""Which policy has the least regret here? A table, and the curves as a figure.

python examples/compare_policies.py
python examples/compare_policies.py --means 0.8,0.9 --trials 2000 --figure regret.png
"""

import argparse

import maillard as mb

POLICIES = ["kl-ms", "ms", "thompson", "kl-ucb", "moss-anytime", "ucb1"]


def main() -> None:
    """Simulate, print, plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--means", default="0.20,0.25", help="of Bernoulli arms")
    parser.add_argument("--horizon", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", help="draw regret there: .png, .svg or .pdf")
    given = parser.parse_args()

    world = mb.Bernoulli([float(mean) for mean in given.means.split(",")])
    result = mb.simulate(POLICIES, world, given.horizon, given.trials, seed=given.seed)
    print(result.summary())

    # Every curve is arrays over the checkpoints: here, when each policy's regret reached half of
    # what it came to.
    for label, curve in result.curves.items():
        half = result.rounds[curve.regret >= curve.regret[-1] / 2][0]
        print(f"{label:14} half of its regret by round {half:,}")
    if given.figure:
        result.plot(given.figure, log_x=True)
        print(f"figure: {given.figure}")


if __name__ == "__main__":
    main()
