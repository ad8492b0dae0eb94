"""Run the experiments, put the report together, and write it whole or not at all."""

import contextlib
import importlib
import json
import os
import platform
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import maillard

from ..plots import new_figure
from ..policies.checks import whole
from . import verdicts
from .laboratory import SIZES, Laboratory, Size
from .page import badge, page, paragraphs, table, text, timing
from .part import Part
from .published import published
from .verdicts import Finding

#: The experiments, in the order of the report.
EXPERIMENTS: Final = ("figure_1", "regret", "offline", "timing", "reader", "table_1")

#: What a report's folder holds, and nothing else: only such a folder is replaced.
_OWN: Final = {"index.html", "report.json", "data"}


class Report(NamedTuple):
    """Where the report is, and what it found."""

    path: Path
    size: str
    seed: int
    findings: list[Finding]
    seconds: float

    @property
    def counts(self) -> dict[str, int]:
        """How often each verdict was given."""
        return dict(Counter(finding.verdict for finding in self.findings))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "report": str(self.path),
            "size": self.size,
            "seed": self.seed,
            "seconds": self.seconds,
            "verdicts": self.counts,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def reproduce(
    out: str | Path = "report",
    size: str | Size = "default",
    *,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | None = None,
    told: Callable[[str], None] | None = None,
) -> Report:
    """Run every experiment and write ``out/index.html``, with the data in ``out/data``.

    Equal sizes and seeds give equal reports, but for timings.

    Parameters
    ----------
    out : a folder that is not there yet, is empty, or holds an earlier report, which is replaced.
    size : "quick", "default" or "full": how many trials.
    workers : threads; all cores by default. The report does not depend on them.
    progress : whether to show bars on standard error; by default only on a terminal.
    told : is given a line before each experiment.
    """
    new_figure()  # without Matplotlib nothing can be drawn: say so before any work
    chosen = size if isinstance(size, Size) else _size(size)
    count = (os.cpu_count() or 1) if workers is None else whole("workers", workers)
    root = whole("seed", seed, low=0)
    scripts = [_script(name) for name in EXPERIMENTS]
    started = time.monotonic()
    with _folder(Path(out)) as folder:
        lab = Laboratory(chosen, folder, seed=root, workers=count, progress=progress)
        parts = []
        for number, script in enumerate(scripts, start=1):
            if told is not None:
                told(f"{number} of {len(scripts)}: {str(script.__doc__).splitlines()[0]}")
            parts.append(script.run(lab))
        seconds = time.monotonic() - started
        findings = [finding for part in parts for finding in part.findings]
        report = Report(Path(out) / "index.html", chosen.name, seed, findings, seconds)
        (folder / "index.html").write_text(_page(lab, parts, seconds), encoding="utf-8")
        text = json.dumps({**report.to_dict(), "report": "index.html"}, indent=2, allow_nan=False)
        (folder / "report.json").write_text(text + "\n", encoding="utf-8")
    return report


def _script(name: str) -> Any:
    """The module of an experiment."""
    return importlib.import_module(f".{name}", __package__)


def _size(name: str) -> Size:
    if name not in SIZES:
        raise ValueError(f"size must be one of {', '.join(SIZES)}, not {name!r}")
    return SIZES[name]


@contextlib.contextmanager
def _folder(out: Path) -> Iterator[Path]:
    """A new folder beside `out`, which takes its place when all has gone well."""
    if out.exists():
        if not out.is_dir():
            raise ValueError(f"{out} is a file: name a folder for the report")
        foreign = sorted(path.name for path in out.iterdir() if path.name not in _OWN)
        if foreign:
            raise ValueError(
                f"{out} holds {foreign[0]}, which is no part of a report: name another folder"
            )
    out.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(4)
    beside, old = (out.with_name(f".{out.name}-{word}-{token}") for word in ("new", "old"))
    beside.mkdir()
    try:
        yield beside
        if out.exists():
            out.rename(old)
        try:
            beside.rename(out)
        except OSError:
            if old.exists():
                old.rename(out)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _page(lab: Laboratory, parts: list[Part], seconds: float) -> str:
    sections = [
        ("summary", "What reproduces", _summary(parts)),
        ("protocols", "Two protocols", _protocols()),
        *((part.anchor, part.title, part.html) for part in parts),
        ("made", "How this was made", _made(lab, seconds)),
    ]
    source = published()["source"]
    foot = (
        f"{text(source['authors'])}, {text(source['title'])}, {text(source['venue'])}; code: "
        f'<a href="{source["code"]}">{text(source["code"].removeprefix("https://"))}</a>. '
        f"Maillard {maillard.__version__}."
    )
    return page("The experiments of the KL-MS paper, run again", sections, foot)


def _summary(parts: list[Part]) -> str:
    findings = [finding for part in parts for finding in part.findings]
    counts = Counter((finding.experiment, finding.verdict) for finding in findings)
    experiments = list(dict.fromkeys(finding.experiment for finding in findings))
    rows = []
    for word in verdicts.VERDICTS:
        cells = [str(counts[name, word] or "·") for name in experiments]
        # Whether the timing reproduces depends on the moment.
        timed = [timing(c) if n == "Timing" else c for n, c in zip(experiments, cells, strict=True)]
        rows.append([badge(word), *timed])
    failed = [f for f in findings if f.verdict == verdicts.NOT and f.experiment != "Timing"]
    listed = (
        "".join(f"<li>{text(f.what)}: printed {text(f.printed)}</li>\n" for f in failed)
        if failed
        else "<li>none</li>\n"
    )
    return (
        paragraphs(
            "This page runs every experiment of the paper again, and sets each printed number and "
            "claim beside ours: once as the paper writes the experiment, and once as the authors' "
            "released code does it, for the two differ. " + _short(findings)
        )
        + table(
            ["", *(text(name) for name in experiments)],
            rows,
            "Printed numbers and claims by verdict. A number reproduces if it is within "
            f"{verdicts.LIMIT:g} standard errors of ours; one in 370 would miss that by chance.",
        )
        + f"<p>Under neither protocol reproduce:</p>\n<ul>{listed}</ul>\n"
    )


def _short(findings: list[Finding]) -> str:
    """The counts, in a sentence."""
    numbers = [f for f in findings if f.written is not None]
    outcomes = [(f.written, f.released) for f in numbers]
    written = sum(w is not None and w.outcome == verdicts.AGREES for w, _ in outcomes)
    released = sum(r is not None and r.outcome == verdicts.AGREES for _, r in outcomes)
    return (
        f"Of {len(numbers)} printed numbers about offline evaluation ours agree with {released} as "
        f"released, and with {written} as written."
    )


def _protocols() -> str:
    rows = [
        ["reward", "Bernoulli with the arm's mean", "the arm's mean itself"],
        ["logged probability", "p<sub>t</sub>, from which the arm was drawn",
         "p<sub>t+1</sub>, after the update"],
        ["Thompson's", "the share p̂ of M posterior draws", "the same, not below 0.5/M"],
        ["first pulls", "KL-MS: arm t in round t, probability 1",
         "every policy: arm t in round t, left out of the sum"],
        ["estimate", "IPW, (1/T) Σ (1/K) r<sub>t</sub>/p<sub>t</sub>",
         "(1/T) Σ r/p over the rounds in which a uniform draw is the logged arm"],
    ]  # fmt: skip
    return (
        paragraphs(
            "The paper's text and the authors' public code describe two different experiments. "
            "Everything below is run under both."
        )
        + table(["", "as written", "as released"], rows, "The two protocols.", cards=True)
        + paragraphs(
            "That the code differs in these points is a fact: <code>src/simulation.py</code> pays "
            "<code>env_reward[chosen_arm]</code>, without noise, and stores "
            "<code>get_arm_prob()</code> after <code>update</code>; <code>evaluation.py</code> "
            "sets the floor, starts at round K, and replays the policy <code>Uniform</code> (last "
            "commit 817f4d3, October 2024). In its history Bernoulli rewards give way to the means "
            "on 13 May 2023 (5c41ac5), two days before the first offline evaluation (fc8fbfc). "
            "That the printed numbers were made by this code is an inference, from how well they "
            "agree."
        )
    )


def _made(lab: Laboratory, seconds: float) -> str:
    size = lab.size
    integrated = ", ".join(f"{n:,} at T = {t:,}" for t, n in size.integrated.items())
    rows = [
        ["size", text(size.name)],
        ["seed", str(lab.seed)],
        ["regret, trials", f"{size.regret:,}; all other policies {size.others:,}"],
        ["logs of KL-MS", f"{size.closed:,} for each setting"],
        ["logs of Bernoulli TS", f"{integrated}, for each setting"],
        ["Python, NumPy", f"{platform.python_version()}, {np.__version__}"],
        ["time", timing(f"{seconds:.0f} s on {lab.workers} threads")],
    ]
    return paragraphs(
        "By <code>maillard reproduce</code>: <code>--quick</code> takes fewer trials, "
        "<code>--full</code> as many as the paper everywhere. Equal sizes and seeds give the same "
        "page, but for timings. Each number's data lie beside this page in <code>data/</code>, all "
        'verdicts in <a href="report.json">report.json</a>. The paper used 2,000 trials of '
        "everything; where ours are fewer, the standard errors say so."
    ) + table(["", ""], rows, "Settings.")
