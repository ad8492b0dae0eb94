"""Three policies learn side by side, and show the probability of every arm as they go."""

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import maillard as mb

MEANS = {"red": 0.20, "green": 0.25, "blue": 0.35}
POLICIES = {
    "kl-ms": "closed form; a zero only where the formula says so",
    "thompson": "by quadrature, to 1e-12 relatively",
    "kl-ucb": "deterministic: all on one arm, or shared among ties",
}
SHOWN = (0, 3, 10, 30, 100, 300, 1_000, 3_000)


def bar(p: float, width: int = 6) -> str:
    """A probability as a bar with an eighth of a cell's resolution."""
    eighths = round(p * width * 8)
    return ("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8]).ljust(width)[:width]


def experiment(name: str) -> Table:
    """One policy's experiment: what it knows after so many rewards."""
    policy = mb.policy(name, arms=list(MEANS))
    choices, rewards = (np.random.default_rng(seed) for seed in (1, 2))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("seen", justify="right", no_wrap=True)
    for arm in MEANS:
        table.add_column(f"P({arm})", no_wrap=True)
    table.add_column("pulls", justify="right", no_wrap=True)
    table.add_column("regret", justify="right", no_wrap=True)
    regret = 0.0
    for seen in range(max(SHOWN) + 1):
        if seen in SHOWN:
            cells = [
                f"{p:<5.3f} {bar(p)}" if p >= 1e-3 or p == 0 else f"{p:<5.0e} {bar(p)}"
                for p in policy.probabilities()
            ]
            pulls = " ".join(f"{n:.0f}" for n in policy.pulls)
            table.add_row(f"{seen:,}", *cells, pulls, f"{regret:.1f}")
        decision = policy.decide(choices)
        mean = MEANS[decision.arm]
        policy.update(decision, float(rewards.random() < mean))
        regret += max(MEANS.values()) - mean
    return table


def main() -> None:
    """Run the three experiments and print what each policy knows at a few rounds."""
    console = Console(highlight=False)
    console.print("Three arms, three policies, and always the exact probability of each arm.")
    console.print(f"True means: {', '.join(f'{arm} {mean}' for arm, mean in MEANS.items())}.\n")
    for name, remark in POLICIES.items():
        console.print(Text.assemble((name, "bold cyan"), f" · {remark}"))
        console.print(experiment(name))
    console.print(
        "Logged with each choice, such a probability lets the log say later what\n"
        "another policy would have earned. KL-UCB's log cannot: its zeros leave nothing\n"
        "to divide by. "
        "`.venv/bin/maillard policies` lists all policies."
    )


if __name__ == "__main__":
    main()
