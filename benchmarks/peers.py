"""What the packages that people use otherwise take for the same work, beside ours.

    python benchmarks/peers.py [--environments DIR] [--rounds N] [--only PACKAGE …]

Each package is installed from the package index, at a pinned version, into a virtual environment of
its own, once; what cannot be installed or imported here is said so, with the reason. Then all of
them, our simulator, our online policies and the yardstick take turns: T = 10,000 rounds of
choosing, a Bernoulli reward, and learning from it. CPU time, best of several.
"""

import argparse
import contextlib
import functools
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import sketch
from ours import Simulated, online_seconds_per_step
from timing import HORIZON, INSTANCES, ROUNDS, best_interleaved, machine, number, say, table

ENVIRONMENTS = Path(__file__).parent.parent / "build" / "peers"
WORK = Path(__file__).parent / "peer_work.py"

#: The policies that at least one peer has, and ours that none has; in the order of the tables.
POLICIES = {
    "thompson": "Thompson sampling",
    "ucb1": "UCB1",
    "moss": "MOSS",
    "kl-ucb": "KL-UCB",
    "exp3": "EXP3",
    "epsilon-greedy": "ε-greedy",
    "kl-ms": "KL-MS",
}
SIMULATOR, ONLINE, YARDSTICK = "Maillard, simulator", "Maillard, online", "yardstick"


@dataclass(frozen=True)
class Peer:
    """A package at a pinned version, and what of it is comparable."""

    title: str
    #: Its name in `peer_work.py`, and the folder of its environment.
    work: str
    folder: str
    #: Requirements for pip. The first is the package; the others hold what its speed depends on.
    requirements: tuple[str, ...]
    policies: tuple[str, ...]


SMPYBANDITS = ("SMPyBandits==0.9.7", "numpy==1.26.4", "scipy==1.12.0", "numba==0.60.0")
PEERS = (
    Peer(
        "SMPyBandits", "smpybandits", "smpybandits", SMPYBANDITS,
        ("thompson", "ucb1", "moss", "kl-ucb", "exp3", "epsilon-greedy"),
    ),
    Peer(
        "SMPyBandits, kl compiled", "smpybandits-compiled", "smpybandits", SMPYBANDITS, ("kl-ucb",)
    ),
    Peer(
        "MABWiser", "mabwiser", "mabwiser",
        ("mabwiser==2.7.4", "numpy==2.4.6", "pandas==3.1.1", "scikit-learn==1.9.1"),
        ("thompson", "ucb1", "epsilon-greedy"),
    ),
    Peer(
        "river", "river", "river", ("river==0.26.1", "numpy==2.4.6"),
        ("thompson", "ucb1", "exp3", "epsilon-greedy"),
    ),
    Peer("coba", "coba", "coba", ("coba==8.1.0",), ("ucb1", "epsilon-greedy")),
    Peer(
        "pybandits", "pybandits", "pybandits",
        ("pybandits==8.4.1", "numpy==2.4.6", "pydantic==2.14.3"), ("thompson",),
    ),
)  # fmt: skip


@dataclass
class Results:
    """Nanoseconds a step by (who, policy, arms), and why what is missing is missing."""

    nanoseconds: dict[tuple[str, str, int], float] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    rounds: int = 0


# --------------------------------------------------------------------------------------------------
# Environments


def install(peer: Peer, folder: Path) -> Path:
    """The Python of an environment that holds the peer; made anew when its pins have changed."""
    environment = folder / peer.folder
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = " ".join((*peer.requirements, sys.version))
    stamp, digest = environment / "ready", hashlib.sha256(wanted.encode()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return python
    say(f"{peer.title}: installing {' '.join(peer.requirements)}")
    environment.parent.mkdir(parents=True, exist_ok=True)
    _checked([sys.executable, "-m", "venv", "--clear", str(environment)], "no environment")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _checked([*pip, "--prefer-binary", *peer.requirements], "cannot be installed")
    stamp.write_text(digest, encoding="utf-8")
    return python


def _checked(command: list[str], complaint: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        raise OSError(f"{complaint}: {last_words(errors or done.stderr.splitlines())}")


def last_words(lines: list[str]) -> str:
    """The last line that says something, without the paths that tell of this machine."""
    said = [line.strip() for line in lines if line.strip()]
    words = said[-1].replace(str(Path.home()), "~") if said else "no reason given"
    return " ".join(words.replace("|", "/").split())[:160]


class Worker:
    """A package in its own process, which answers one request at a time."""

    def __init__(self, peer: Peer, python: Path, log: IO[str]) -> None:
        self._log = log
        self._process = subprocess.Popen(
            [str(python), "-W", "ignore", str(WORK), peer.work],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")},
        )  # fmt: skip
        self._answer()

    def play(self, policy: str, arms: int, horizon: int = HORIZON) -> float:
        """CPU seconds of a step."""
        means = INSTANCES[arms].tolist()
        request = {"policy": policy, "means": means, "horizon": horizon, "seed": 0}
        assert self._process.stdin is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = json.loads(self._answer())
        if "problem" in answer:
            raise OSError(f"{policy}: {last_words([answer['problem']])}")
        return float(answer["seconds"]) / horizon

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._process.communicate(timeout=10)
        self._process.kill()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._log.seek(0)
            raise OSError(f"does not run: {last_words(self._log.read().splitlines())}")
        return line


@contextlib.contextmanager
def workers(peers: list[Peer], folder: Path, results: Results) -> Iterator[dict[Peer, Worker]]:
    """A worker for each peer that can be had; the others' reasons go into the results."""
    with contextlib.ExitStack() as stack:
        started: dict[Peer, Worker] = {}
        for peer in peers:
            try:
                python = install(peer, folder)
                log = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
                started[peer] = Worker(peer, python, log)
                stack.callback(started[peer].close)
            except OSError as problem:
                results.problems[peer.title] = str(problem)
                say(f"{peer.title}: {problem}")
        yield started


# --------------------------------------------------------------------------------------------------
# Measuring


def measure(peers: list[Peer], folder: Path, rounds: int) -> Results:
    """Everything, in turns."""
    results = Results(rounds=rounds)
    with workers(peers, folder, results) as started:
        cases: dict[tuple[str, str, int], Any] = {}
        for arms, means in INSTANCES.items():
            sketch.run("kl-ms", means, 100, sketch.LANES)
            cases[YARDSTICK, "kl-ms", arms] = functools.partial(
                sketch.seconds_per_step, "kl-ms", means
            )
            for name in POLICIES:
                simulated = Simulated(name, means).enough_trials()
                cases[SIMULATOR, name, arms] = simulated.seconds_per_step
                online_seconds_per_step(name, means, 100)
                cases[ONLINE, name, arms] = functools.partial(online_seconds_per_step, name, means)
            for peer, worker in started.items():
                for name in peer.policies:
                    try:
                        worker.play(name, arms, horizon=100)
                    except OSError as problem:
                        results.problems[f"{peer.title}, {POLICIES[name]}"] = str(problem)
                        continue
                    cases[peer.title, name, arms] = functools.partial(worker.play, name, arms)
        best = best_interleaved(cases, rounds, "peers")
    results.nanoseconds = {key: seconds * 1e9 for key, seconds in best.items()}
    return results


# --------------------------------------------------------------------------------------------------
# Telling


def rivals(results: Results) -> list[str]:
    """The peers that were measured, in order."""
    measured = {who for who, _, _ in results.nanoseconds}
    return [peer.title for peer in PEERS if peer.title in measured]


def tables(results: Results) -> str:
    """Nanoseconds a step, and how many times ours and the yardstick's that is."""
    parts = []
    for arms in INSTANCES:
        rows = []
        for name, title in POLICIES.items():
            ours = results.nanoseconds.get((SIMULATOR, name, arms), math.nan)
            online = results.nanoseconds.get((ONLINE, name, arms), math.nan)
            stick = results.nanoseconds[YARDSTICK, "kl-ms", arms]
            for who in (SIMULATOR, ONLINE, *rivals(results), YARDSTICK):
                value = results.nanoseconds.get((who, name, arms))
                if value is not None:
                    cells = (value, value / ours, value / online, value / stick)
                    rows.append([title, who, *map(number, cells)])
        headers = ["policy", "package", "ns a step", "× simulator", "× online", "× yardstick"]
        parts.append(f"**{arms} arms**\n\n{table(headers, rows)}")
    if results.problems:
        missing = [f"- {who}: {why}" for who, why in results.problems.items()]
        parts.append("Not measured here:\n\n" + "\n".join(missing))
    return "\n\n".join(parts)


def versions() -> str:
    """The pins, each package once."""
    pins = []
    for package, *others in dict.fromkeys(peer.requirements for peer in PEERS):
        pins.append(f"{package} (with {', '.join(others)})" if others else package)
    return "; ".join(pins)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that `page.py` shares."""
    parser.add_argument(
        "--environments", type=Path, default=ENVIRONMENTS, metavar="DIR",
        help="where the peers' environments are kept, 2 GB of them (build/peers)",
    )  # fmt: skip
    parser.add_argument(
        "--only", nargs="*", choices=[p.work for p in PEERS], metavar="PACKAGE",
        help=f"only these peers: {', '.join(p.work for p in PEERS)}",
    )  # fmt: skip


def chosen(options: argparse.Namespace) -> list[Peer]:
    return [peer for peer in PEERS if options.only is None or peer.work in options.only]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time other packages beside ours.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="repetitions (%(default)s)")
    add_options(parser)
    options = parser.parse_args()
    print("\n".join(machine()), end="\n\n")
    print(tables(measure(chosen(options), options.environments, options.rounds)))


if __name__ == "__main__":
    main()
