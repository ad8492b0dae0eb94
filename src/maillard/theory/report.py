"""`maillard.bounds`: every bound for one bandit, beside a simulation where asked."""

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..tables import Table
from . import lower
from .instances import checked_horizons, checked_means
from .known import THEORIES


@dataclass(frozen=True)
class Simulated:
    """Mean pseudo-regret of one policy over many trials, at some rounds."""

    trials: int
    rounds: Any
    regret: Any
    error: Any


class Bounds:
    """Lower and upper bounds on the regret of one bandit after `horizon` rounds.

    `bounds["kl-ms"]["theorem_1"]` is a number, or an array if there are several horizons.
    """

    def __init__(
        self,
        means: Any,
        horizon: Any,
        policies: Iterable[str],
        options: dict[str, Any],
        worst_case: Any,
    ) -> None:
        self.means = checked_means(means)
        if self.means.ndim != 1:
            raise ValueError("means must be one list, an instance; bounds are for one at a time")
        self.horizon = horizon
        self._worst_case = worst_case
        self._options = options
        self.asymptotic_constant = float(lower.lai_robbins(self.means))
        with np.errstate(all="ignore"):
            self.lower = {
                "asymptotic": self.asymptotic_constant * checked_horizons(horizon).log[()],
                "finite_time": lower.finite_time(self.means, horizon, self.limit(horizon)),
                "small_horizon": lower.small_horizon(self.means, horizon),
                "minimax": lower.minimax(len(self.means), horizon),
                "minimax_published": lower.minimax_published(len(self.means), horizon),
            }
            self.policies = {slug: self._evaluate(slug, horizon) for slug in policies}
        self.simulated: dict[str, Simulated] = {}

    def limit(self, horizon: Any) -> Any:
        """B of the finite-time lower bound: √(KT) unless it was given."""
        if self._worst_case is not None:
            return self._worst_case
        return np.sqrt(len(self.means)) * np.sqrt(checked_horizons(horizon).rounds)

    def _evaluate(self, slug: str, horizon: Any) -> dict[str, Any]:
        return {
            bound.name: bound.evaluate(self.means, horizon, **(self._options if bound.free else {}))
            for bound in THEORIES[slug].bounds
        }

    def __getitem__(self, slug: str) -> dict[str, Any]:
        if slug not in self.policies:
            raise KeyError(f"no bounds of {slug!r} here; there are {', '.join(self.policies)}")
        return self.policies[slug]

    def best(self, slug: str) -> Any:
        """The least of a policy's bounds, the trivial one included."""
        return self._least(slug, self[slug], self.horizon)[0]

    def _least(self, slug: str, values: dict[str, Any], horizon: Any) -> tuple[Any, str]:
        """The least bound and, for a single horizon, its name."""
        kept = {b.name: values[b.name] for b in THEORIES[slug].bounds if not b.shown_only}
        kept["trivial"] = THEORIES[slug].trivial(self.means, horizon)
        stack = np.array(list(kept.values()))
        name = list(kept)[int(stack.argmin(axis=0))] if stack.ndim == 1 else ""
        return stack.min(axis=0)[()], name

    def curve(self, slug: str, rounds: Any) -> Any:
        """`best` at other horizons."""
        with np.errstate(all="ignore"):
            values = self._evaluate(slug, rounds)
            return self._least(slug, values, rounds)[0]

    def slope(self, slug: str) -> float:
        """What regret over ln T is known to stay below in the limit; NaN if unknown."""
        return float(THEORIES[slug].slope(self.means))

    def simulate(self, trials: int, seed: int = 0) -> "Bounds":
        """Simulate the policies on Bernoulli arms of these means, to hold against their bounds."""
        from ..environments import Bernoulli
        from ..simulation.run import simulate

        if np.ndim(self.horizon) > 0:
            raise ValueError("a simulation needs a single horizon")
        named: list[Any] = [THEORIES[slug].made(self.horizon) for slug in self.policies]
        result = simulate(
            named, Bernoulli(self.means.tolist()), self.horizon, trials, seed, checkpoints=64
        )
        for slug, curve in zip(self.policies, result.curves.values(), strict=True):
            self.simulated[slug] = Simulated(curve.trials, result.rounds, curve.regret, curve.error)
        return self

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data; what is infinite or unknown is None."""
        policies = {}
        for slug, values in self.policies.items():
            entry = {name: _plain(value) for name, value in values.items()}
            entry["trivial"] = _plain(THEORIES[slug].trivial(self.means, self.horizon))
            entry["best"] = _plain(self.best(slug))
            entry["asymptotic_constant"] = _plain(self.slope(slug))
            if slug in self.simulated:
                found = self.simulated[slug]
                entry["simulated"] = {
                    "trials": found.trials,
                    "regret": _plain(found.regret[-1]),
                    "standard_error": _plain(found.error[-1]),
                    "ratio": _plain(self._ratio(slug)),
                }
            policies[slug] = entry
        return {
            "means": self.means.tolist(),
            "horizon": _horizon(self.horizon),
            "asymptotic_constant": _plain(self.asymptotic_constant),
            "lower": {name: _plain(value) for name, value in self.lower.items()},
            "policies": policies,
        }

    def _ratio(self, slug: str) -> float:
        """Bound over simulated regret."""
        regret = float(self.simulated[slug].regret[-1])
        return float(self.best(slug)) / regret if regret > 0.0 else math.nan

    def summary(self) -> Table:
        """A table by policy: print it, or let a notebook show it."""
        if np.ndim(self.horizon) > 0:
            raise ValueError("a summary is of a single horizon; `to_dict` has them all")
        heads = ["policy", "best bound", "which", "any instance", "× ln T, T → ∞"]
        heads += ["simulated", "± s.e.", "bound/simulated"] if self.simulated else []
        rows = [self._row(slug) for slug in self.policies]
        for name, text in _LOWER.items():
            value = [_shown(self.lower[name]), name] + [""] * (len(heads) - 3)
            rows.append(("lower bound", *value, text))
        return Table(
            f"Bounds on the regret after {_shown(self.horizon)} rounds",
            (*heads, "from"),
            tuple(rows),
            words=(0, 2, len(heads)),
        )

    def _row(self, slug: str) -> tuple[str, ...]:
        values = self.policies[slug]
        least, name = self._least(slug, values, self.horizon)
        sources = {bound.name: bound.source for bound in THEORIES[slug].bounds}
        cells = [
            slug + "".join(f" {k}={v:g}" for k, v in THEORIES[slug].parameters.items()),
            _shown(least),
            name,
            _shown(values.get("worst_case", math.nan)),
            _shown(self.slope(slug)),
        ]
        if self.simulated:
            found = self.simulated[slug]
            cells += [_shown(found.regret[-1]), _shown(found.error[-1])]
            cells.append(_shown(self._ratio(slug)))
        return (*cells, sources.get(name, "the worst arm in every round, each other once"))

    def plot(self, path: Any = None) -> Any:
        """Regret curves between lower and upper bounds; written to `path` if there is one."""
        from ..plots import write
        from ..theory_plots import bounds_figure

        figure = bounds_figure(self)
        if path is not None:
            write(figure, path)
        return figure

    def __repr__(self) -> str:
        if np.ndim(self.horizon) > 0:
            return f"<Bounds at {np.size(self.horizon)} horizons: {', '.join(self.policies)}>"
        shown = ", ".join(f"{slug} ≤ {_shown(self.best(slug))}" for slug in self.policies)
        return f"<Bounds after {_shown(self.horizon)} rounds: {shown}>"

    def _repr_html_(self) -> str:
        if np.ndim(self.horizon) > 0:
            return f"<code>{html.escape(repr(self))}</code>"
        return self.summary()._repr_html_()


_LOWER: Final = {
    "asymptotic": "C ln T: the limit for good policies, not a bound at T; Lai, Robbins 1985",
    "finite_time": "if regret never exceeds √(KT) on other instances; Lattimore, Szepesvári 2020",
    "small_horizon": "if no worse than pulling at random; Garivier, Ménard, Stoltz 2019",
    "minimax": "on some instance, every policy; Bubeck, Cesa-Bianchi 2012",
}


def bounds(
    means: Any,
    horizon: Any,
    policies: str | Iterable[str] | None = None,
    *,
    simulate: int = 0,
    seed: int = 0,
    delta: float | None = None,
    c: float | None = None,
    worst_case: Any = None,
) -> Bounds:
    """What theory says of the regret on arms of these means, in [0, 1], after `horizon` rounds.

    >>> import maillard as mb
    >>> found = mb.bounds(means=[0.8, 0.9], horizon=10_000)
    >>> round(found.asymptotic_constant, 3)
    2.252
    >>> found["kl-ms"]["theorem_1"] < found["kl-ms"]["theorem_1_printed"]
    True

    Parameters
    ----------
    means : one number in [0, 1] for each arm.
    horizon : T, or a list of them; a whole number may be as large as it likes.
    policies : names, all that have a bound by default.
    simulate : so many trials on Bernoulli arms, beside the bounds.
    delta, c : Theorem 1 of KL-MS at these values instead of the best ones.
    worst_case : B of the finite-time lower bound, for policies whose regret at T is at most B on
        every instance; √(KT) by default.
    """
    names = list(THEORIES) if policies is None else policies
    chosen = [names] if isinstance(names, str) else list(names)
    for slug in chosen:
        if slug not in THEORIES:
            raise ValueError(f"no bounds are known of {slug!r}; there are {', '.join(THEORIES)}")
    if isinstance(simulate, bool) or not isinstance(simulate, (int, np.integer)) or simulate < 0:
        raise ValueError(f"simulate must be a number of trials, not {simulate!r}")
    found = Bounds(means, horizon, chosen, {"delta": delta, "c": c}, worst_case)
    return found.simulate(int(simulate), seed) if simulate else found


def _plain(value: Any) -> Any:
    """Numbers as JSON has them: no NaN, no infinity."""
    if np.ndim(value) > 0:
        return [_plain(x) for x in np.asarray(value)]
    return float(value) if math.isfinite(value) else None


def _horizon(horizon: Any) -> Any:
    if np.ndim(horizon) > 0:
        return [_horizon(t) for t in horizon]
    return int(horizon) if isinstance(horizon, (int, np.integer)) else float(horizon)


def _shown(value: Any) -> str:
    """A number as a table shows it: four digits that count."""
    if isinstance(value, int):
        return f"{value:,}" if value < 10**15 else f"10^{len(str(value)) - 1}"
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    if value == 0.0 or 1e-3 <= abs(value) < 1e9:
        return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.4g}"
    return f"{value:.3g}"
