"""The online life of a policy: decide, learn, and be written down.

A subclass says what the policy *is*: its names, its parameters, its statistics and its formula.
This module is what all of them share. `decide` never changes a policy and `update` never draws the
next arm: the distribution is a function of the rewards observed so far, so rewards may come late,
in batches and in any order, and the logged probability is the one drawn from.
"""

import difflib
import functools
import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..compiled import Kernel, bind, build
from . import counts, learning, rules, storage
from .checks import (
    LARGEST,
    as_many,
    as_number,
    brief,
    checked_label,
    is_batch,
    labels_of,
    not_a_generator,
    share,
    whole,
)
from .decision import Decision, Decisions
from .formula import MAX_PARAMETERS, MAX_ROWS, adapt, check_names, shared, vocabulary
from .parameters import Parameter

Array = NDArray[np.float64]

#: slug → class, filled as the classes are defined; `catalogue` reads it.
REGISTRY: dict[str, type["Policy"]] = {}


#: For the policies whose formula makes sense whatever the rewards are.
ANY_RANGE = ("bounded", "below", "nonnegative", "real")


#: What every policy takes when it is made.
_ARGUMENTS = ("arms", "rewards", "initial", "floor", "binarise")


class InexactProbabilityError(ValueError):
    """Raised where a policy has no exact probability to give."""


class Policy:
    """A bandit policy whose every choice carries its exact probability.

    Parameters
    ----------
    arms : a number K (the labels are then 0 … K−1) or the labels themselves, at least two.
    rewards : the interval [L, U] that rewards lie in; they are scaled to [0, 1] for the formulas.
    initial : the order of the first pulls, ``"shuffled"`` (uniform over the arms not yet pulled) or
        ``"in-order"`` (the paper's: probability 1 each).
    floor : ε in p' = (1−ε) p + ε/K, so that no probability is below ε/K.
    binarise : the seed of a coin that turns a reward r into 1 with probability r, else 0: what is
        proven for Bernoulli rewards then holds for all in [L, U]. None: learn from r itself.
    parameters : the policy's own, by name.
    """

    slug: ClassVar[str] = ""
    title: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    #: Rewards and guarantees that the policy is made for, in a few words.
    setting: ClassVar[str] = "rewards in [L, U]"
    #: What its probabilities are and how exact.
    exactness: ClassVar[str] = ""
    experimental: ClassVar[bool] = False

    #: Statistics kept beside each arm's pulls and total.
    rows: ClassVar[tuple[str, ...]] = ()
    #: Those of them that are worked out from the others before each use, and so not stored.
    derived: ClassVar[tuple[str, ...]] = ()
    #: Numbers kept for the policy as a whole.
    memory: ClassVar[int] = 0
    #: Whether each arm is pulled once before the formula applies.
    forced: ClassVar[bool] = True
    #: Which reward ranges make sense: "bounded", "below" (−∞, U], "nonnegative", "real".
    ranges: tuple[str, ...] = ("bounded",)
    #: Whether `update` must be told the propensity of the time.
    needs_propensity: ClassVar[bool] = False
    #: Whether pulls, totals and squares are all that it has to know of the past.
    countable: ClassVar[bool] = True

    _declared: ClassVar[dict[str, Parameter]] = {}
    # Whether the hooks of these names do anything: looked up once, not at every decision.
    _prepares: ClassVar[bool] = False
    _notes: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._prepares = cls._prepare is not Policy._prepare
        cls._notes = cls._note is not Policy._note
        own = {n: v for n, v in vars(cls).items() if isinstance(v, Parameter)}
        for name in own:
            if hasattr(Policy, name) or name in _ARGUMENTS:
                raise TypeError(f"{cls.__name__}: every policy has a {name!r} already")
        cls._declared = {**cls._declared, **own}
        parts = [part for spec in cls._declared.values() for part in spec.parts]
        check_names(cls.__name__, cls.rows, parts)
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if spec.required else spec.default,
            )
            for name, spec in cls._declared.items()
        ]
        base = list(inspect.signature(Policy.__init__).parameters.values())[1:-1]
        cls.__signature__ = inspect.Signature([*base, *parameters])  # type: ignore[attr-defined]
        if "slug" in vars(cls):
            known = REGISTRY.get(cls.slug, cls)
            if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise TypeError(f"{cls.__name__}: there is a policy {cls.slug!r} already")
            REGISTRY[cls.slug] = cls

    def __init__(
        self,
        arms: int | Iterable[Hashable],
        *,
        rewards: tuple[float, float] | None = None,
        initial: str = "shuffled",
        floor: float = 0.0,
        binarise: int | None = None,
        **parameters: Any,
    ) -> None:
        self._labels = labels_of(arms)
        self.parameters = self._validated(parameters)
        self._rewards = self._range(rewards)
        if initial not in ("shuffled", "in-order"):
            raise ValueError(f"initial must be 'shuffled' or 'in-order', not {brief(initial)}")
        self._initial = initial
        self._floor = share("floor", floor)
        low, high = self.rewards
        bounded = math.isfinite(low) and math.isfinite(high)
        self._shift = low if bounded else (high - 1.0 if math.isfinite(high) else 0.0)
        self._scale = high - low if bounded else 1.0
        if binarise is not None and not bounded:
            raise ValueError("binarise needs rewards in a bounded interval [L, U]")
        seed = None if binarise is None else whole("binarise", binarise, low=0)
        self._coin = None if seed is None else np.random.default_rng(seed)
        self._retired: dict[Hashable, dict[str, float]] = {}
        self._seen = 0
        self._state = np.zeros((2 + len(self.rows), len(self._labels)))
        self._raw_total = np.zeros(len(self._labels))
        self._memory = np.zeros(max(self.memory, 1))
        self._numbers = np.zeros(MAX_PARAMETERS)
        numbers = [x for n, s in self._declared.items() for x in s.numbers(self.parameters[n])]
        self._numbers[: len(numbers)] = numbers
        self._kernels: dict[str, Kernel] = {}
        self._check()
        self._start()
        self._reshape()

    # ------------------------------------------------------------------ what a subclass may define

    def _check(self) -> None:
        """Validate what concerns several parameters at once."""

    def _start(self) -> None:
        """Set the state of a policy that has seen nothing, where it is not all zeros."""

    def _rule(self) -> Kernel:
        """The compiled template, formulas filled in, that gives the distribution."""
        raise NotImplementedError

    def _block(self) -> Kernel | None:
        """In place of `_rule`, a rule over many trials: for what is more than a formula an arm."""
        return None

    def _mixture(self) -> Kernel | None:
        """The formula for the uniform share of every distribution, if there is one."""
        return getattr(self, "mixture", None)

    def _learn(self) -> Kernel:
        """The compiled template that learns from one reward."""
        return learning.count

    def _learn_block(self) -> Kernel | None:
        """In place of `_learn`, an update of many trials."""
        return learning.count_spread if "spread" in self.rows else None

    def _prepare(self, state: Array, positions: Sequence[int]) -> None:
        """Fill rows of `state` that are computed from what only Python knows."""

    def _note(self, labels: Sequence[Hashable], p: Array) -> tuple[Any, ...]:
        """What a decision made now, from this distribution, must remember for its update."""
        return ()

    def _check_addable(self) -> None:
        """Raise where no arm can be added."""

    def _check_retirable(self, position: int) -> None:
        """Raise where this arm cannot be retired."""

    def _added(self, position: int) -> None:
        """An arm was added: set its statistics where they are not zeros."""

    def _removed(self, position: int) -> None:
        """An arm was retired: its column is gone already."""

    def _extra_state(self) -> dict[str, Any]:
        """What `state()` must hold beyond the statistics."""
        return {}

    def _restore_extra(self, stored: Mapping[str, Any]) -> None:
        """Take back what `_extra_state` gave."""

    # ------------------------------------------------------------------------------------- formulas

    @classmethod
    def _row_names(cls) -> tuple[str, ...]:
        """The statistics, in the order of the rows of the state."""
        return ("pulls", "total", *cls.rows)

    def _words(self, own_estimate: bool = False) -> dict[str, str]:
        parts = [part for spec in self._declared.values() for part in spec.parts]
        return vocabulary(self._row_names(), parts, own_estimate)

    def _estimates(self) -> Kernel:
        """The kernel that fills every arm's estimate: its sample mean, or by its own `estimate`."""
        own = getattr(type(self), "estimate", None)
        if own is None:
            return rules.sample_means
        each = self._for_each_arm(own, own_estimate=True)
        return bind(rules.formula_estimates, own_estimates=each)

    def _for_each_arm(self, formula: Kernel, own_estimate: bool) -> Kernel:
        """The kernel that fills a formula's value for every arm."""
        adapted = adapt(formula, self._words(own_estimate))
        return bind(rules.each_arm, formula=adapted, **self._row_numbers())

    def _bound(self, template: Kernel, **formulas: Kernel) -> Any:
        """A rule with this policy's estimates and formulas filled in."""
        estimates = self._estimates()
        own = estimates is not rules.sample_means
        filled = {name: self._for_each_arm(formula, own) for name, formula in formulas.items()}
        return bind(template, estimates=estimates, **filled)

    def _row_numbers(self) -> dict[str, int]:
        kept = 2 + len(self.rows)
        return {f"ROW_{i}": i if i < kept else 0 for i in range(1, MAX_ROWS)}

    def _choose_kernel(self) -> Any:
        """The distribution and a choice from it, as plain functions; `build` compiles them."""
        mixture, block = self._mixture(), self._block()
        mix: Any = rules.unmixed
        if mixture is not None:
            mix = bind(rules.formula_mixed, mixture=adapt(mixture, shared(self._words())))
        return bind(
            rules.choose,
            rule=self._rule() if block is None else bind(rules.one_trial, block=block),
            mix=mix,
            first_pulls=bind(rules.first_pulls, IN_ORDER=self.initial == "in-order"),
            FORCED=self.forced,
        )

    # ----------------------------------------------------------------------------- the distribution

    def _reshape(self) -> None:
        """Lay out what depends on the number of arms; kernels are fetched at first use."""
        arms = len(self._labels)
        self._position = {label: i for i, label in enumerate(self._labels)}
        self._work = np.zeros((rules.WORK_ROWS, arms))
        self._p, self._log_p = self._work[rules.P], self._work[rules.LOG_P]
        self._choose: Kernel = self._first_choose
        self._learn_one: Kernel = self._first_learn
        self._fresh = False

    def _compiled(self, name: str, signature: str, make: Callable[[], Kernel]) -> Kernel:
        """A kernel of this policy's own, compiled when it is first wanted."""
        if name not in self._kernels:
            self._kernels[name] = build(make(), signature)
        return self._kernels[name]

    def _first_choose(self, *arguments: Any) -> Any:
        self._choose = build(self._choose_kernel(), rules.CHOOSE_SIGNATURE)
        return self._choose(*arguments)

    def _first_learn(self, *arguments: Any) -> None:
        block = self._learn_block()
        one = self._learn() if block is None else bind(learning.one_trial, learn_block=block)
        self._learn_one = build(one, learning.SIGNATURE)
        self._learn_one(*arguments)

    @property
    def round(self) -> int:
        """t: one more than the number of rewards observed."""
        return self._seen + 1

    def _choose_now(self, u: float) -> tuple[int, float, float]:
        """Bring the distribution up to date and choose from it: position, p, log p."""
        if self._prepares:
            self._prepare(self._state, range(len(self._labels)))
        chosen = self._choose(
            self._state, self._memory, self._seen + 1.0, self._numbers, self._work, self._floor, u
        )
        if chosen[0] < 0:
            raise self._no_distribution()
        self._fresh = True
        return chosen  # type: ignore[no-any-return]

    def _no_distribution(self) -> Exception:
        return ArithmeticError(
            f"{self.slug} has no distribution over these arms: its formula gave no finite weight"
        )

    def _restricted(self, eligible: Iterable[Hashable]) -> tuple[Sequence[int], Array, Array]:
        """Positions, p and log p of the policy restricted to some of its arms."""
        positions = self._positions(eligible)
        if len(positions) == len(self._labels):
            if not self._fresh:
                self._choose_now(0.0)
            return positions, self._p, self._log_p
        state = np.ascontiguousarray(self._state[:, positions])
        self._prepare(state, positions)
        work = np.zeros((rules.WORK_ROWS, len(positions)))
        t = self._seen + 1.0
        if self._choose(state, self._memory, t, self._numbers, work, self._floor, 0.0)[0] < 0:
            raise self._no_distribution()
        return positions, work[rules.P], work[rules.LOG_P]

    def _positions(self, eligible: Iterable[Hashable]) -> Sequence[int]:
        if eligible is self._labels:  # everything: no need to look up a hundred thousand labels
            return range(len(self._labels))
        if isinstance(eligible, (str, bytes)) or not isinstance(eligible, Iterable):
            raise ValueError(f"eligible must be a list of labels, not {brief(eligible)}")
        positions = sorted({self._at(label) for label in eligible})
        if not positions:
            raise ValueError("eligible must name at least one arm")
        return positions

    def probabilities(self, eligible: Iterable[Hashable] | None = None) -> Array:
        """The exact probability of each arm now, in the order of `arms`; sums to 1."""
        return self._vector(eligible, 1, 0.0)

    def log_probabilities(self, eligible: Iterable[Hashable] | None = None) -> Array:
        """Their logarithms: finite where the probability itself underflows, −∞ where it is 0."""
        return self._vector(eligible, 2, -math.inf)

    def _vector(
        self, eligible: Iterable[Hashable] | None, which: Literal[1, 2], absent: float
    ) -> Array:
        everything = self._labels if eligible is None else eligible
        result = self._restricted(everything)
        if len(result[0]) == len(self._labels):
            return result[which].copy()
        vector = np.full(len(self._labels), absent)
        vector[result[0]] = result[which]
        return vector

    # --------------------------------------------------------------------------------------- decide

    def decide(
        self,
        rng: np.random.Generator,
        size: int | None = None,
        eligible: Iterable[Hashable] | None = None,
    ) -> Any:
        """Choose an arm: a Decision, or with `size` a batch of independent ones.

        With `eligible` the choice is among those arms only: the policy as if there were no others
        (but for the round t, which counts all rewards). Deciding changes nothing in the policy.
        """
        if not isinstance(rng, np.random.Generator):
            raise not_a_generator(rng)
        if eligible is None and size is None:
            u = rng.random()
            chosen, p, log_p = (
                _pick()(self._p, self._log_p, u) if self._fresh else self._choose_now(u)
            )
            note = self._note(self._labels, self._p) if self._notes else ()
            return _new_decision((self._labels[chosen], p, log_p, self._seen + 1, note))
        positions, p, log_p = self._restricted(self._labels if eligible is None else eligible)
        labels = [self._labels[i] for i in positions]
        count = 1 if size is None else whole("size", size)
        index = picks(p, rng.random(count))
        note = self._note(labels, p)
        batch = Decisions(labels, index, p.copy(), log_p.copy(), self.round, note)
        return batch[0] if size is None else batch

    # --------------------------------------------------------------------------------------- update

    def update(self, choice: Any, reward: Any, propensity: Any = None) -> None:
        """Learn from a reward, or from many.

        `choice` is a Decision, an arm's label, or a batch of either (with as many rewards).
        Policies that weight by the propensity take it from the Decision; with a bare label, give
        it.
        """
        if type(choice) is Decision:
            position = self._at(choice.arm)
            given = choice.propensity if propensity is None else propensity
            self._update_one(position, reward, given, choice.round, choice.note)
        elif isinstance(choice, Decisions) or is_batch(choice):
            self._update_many(choice, reward, propensity)
        else:
            self._update_one(self._at(choice), reward, propensity, self._seen + 1, None)

    def _update_one(
        self, position: int, reward: Any, propensity: Any, round: Any, note: Any
    ) -> None:
        value = self._checked_reward(position, reward)
        p, round, note = self._checked_past(propensity, round, note)
        self._absorb(position, self._learnable(position, value), p, round, note)
        self._seen += 1
        self._fresh = False

    def _absorb(
        self, position: int, x: float, propensity: float, round: int, note: tuple[Any, ...]
    ) -> None:
        """Learn from one scaled reward; everything has been checked."""
        self._learn_one(
            self._state, self._memory, position, x, propensity, float(round), self._numbers
        )

    def _update_many(self, choices: Any, rewards: Any, propensity: Any) -> None:
        choices = list(choices)
        values = as_many("rewards", rewards, len(choices))
        if is_batch(propensity):
            given = as_many("propensities", propensity, len(choices))
        else:
            given = [propensity] * len(choices)
        # All is checked before anything is learnt: an error leaves the policy as it was.
        rows = []
        for choice, value, p in zip(choices, values, given, strict=True):
            decided = choice if isinstance(choice, Decision) else None
            position = self._at(decided.arm if decided else choice)
            if decided and p is None:
                p = decided.propensity
            rows.append((
                position,
                self._checked_reward(position, value),
                self._checked_past(
                    p,
                    decided.round if decided else self._seen + 1,
                    decided.note if decided else None,
                ),
            ))  # fmt: skip
        for position, value, (p, round, note) in rows:
            self._absorb(position, self._learnable(position, value), p, round, note)
            self._seen += 1
        self._fresh = False

    def _checked_reward(self, position: int, reward: Any) -> float:
        value = reward if type(reward) is float else as_number(reward)
        if value is None:
            raise ValueError(
                f"the reward of arm {self._labels[position]!r} must be one number, "
                f"not {brief(reward)}"
            )
        low, high = self._rewards
        if not (low <= value <= high and -LARGEST <= value <= LARGEST and self._accepts(value)):
            raise ValueError(
                f"reward {brief(value)} of arm {self._labels[position]!r} "
                f"is not {self._range_text()}"
            )
        return value

    def _accepts(self, reward: float) -> bool:
        """Whether a reward inside the range is one that the policy can learn from."""
        return True

    def _range_text(self) -> str:
        low, high = self.rewards
        left = "[" if math.isfinite(low) and self._accepts(low) else "("
        right = ")" if math.isinf(high) else "]"
        return f"in {left}{low:g}, {high:g}{right}"

    def _checked_past(
        self, propensity: Any, round: Any, note: Any
    ) -> tuple[float, int, tuple[Any, ...]]:
        """What a reward's decision remembers, as far as this policy learns from it."""
        if not self.needs_propensity:
            return 1.0, 1, ()
        if type(round) is not int or not 1 <= round <= 2**53:
            raise ValueError(f"the round of a decision must be a whole number, not {brief(round)}")
        return self._checked_propensity(propensity), round, self._checked_note(note)

    def _checked_note(self, note: Any) -> tuple[Any, ...]:
        """The note of a decision; None where a bare label was given."""
        return ()

    def _checked_propensity(self, propensity: Any) -> float:
        if propensity is None:
            raise ValueError(
                f"{self.slug} learns from the propensity of the time: update with the Decision, "
                "or give propensity="
            )
        value = propensity if type(propensity) is float else as_number(propensity)
        if value is None or not 0.0 < value <= 1.0 or 1.0 / value > LARGEST:
            raise ValueError(f"a propensity must be in (0, 1], not {brief(propensity)}")
        return value

    def _learnable(self, position: int, reward: float) -> float:
        """The reward scaled to what the formulas see; a coin's 0 or 1 when binarised."""
        x = self._scaled(reward)
        if self._coin is not None:
            self._raw_total[position] += reward
            x = 1.0 if self._coin.random() < x else 0.0
        return x

    def _scaled(self, reward: float) -> float:
        """To [0, 1], or to (−∞, 1] so that U itself is exactly 1; unbounded ranges stay."""
        low, high = self.rewards
        if low == -math.inf:
            return reward if high == math.inf else 1.0 - (high - reward)
        return reward if high == math.inf else (reward - low) / (high - low)

    def update_counts(self, pulls: Any, totals: Any, squares: Any = None) -> None:
        """Learn from counts: for each arm, in the order of `arms`, its pulls and sum of rewards.

        Policies that use the variance need the sums of squared rewards too. Policies whose state
        depends on the order or on the propensities of single rewards cannot learn from counts.
        """
        if not self.countable or self._coin is not None:
            why = "binarises rewards one by one" if self.countable else "needs single rewards"
            raise ValueError(f"{self.slug} {why}: use update()")
        n, x, q = counts.checked(self, pulls, totals, squares)
        if "spread" in self.rows:
            self._state[learning.SPREAD] += counts.added_spread(self._state, n, x, q)
        self._state[learning.PULLS] += n
        self._state[learning.TOTAL] += x
        self._seen += int(n.sum())
        self._fresh = False

    # ----------------------------------------------------------------------------------------- arms

    @property
    def rewards(self) -> tuple[float, float]:
        """The interval that rewards lie in."""
        return self._rewards

    @property
    def initial(self) -> str:
        """The order of the first pulls."""
        return self._initial

    @property
    def floor(self) -> float:
        """The share of every distribution that is uniform by the user's wish."""
        return self._floor

    @property
    def arms(self) -> tuple[Any, ...]:
        """The labels of the arms in play, in order."""
        return self._labels

    @property
    def pulls(self) -> Array:
        """How many rewards of each arm have been observed."""
        return np.array(self._state[0])

    @property
    def means(self) -> Array:
        """The mean of each arm's rewards as they came, unscaled; NaN before the first."""
        with np.errstate(invalid="ignore"):
            if self._coin is not None:  # the statistics hold the coin's zeros and ones
                return np.array(self._raw_total / self._state[0])
            mean = self._state[learning.TOTAL] / self._state[learning.PULLS]
            return np.array(self._shift + self._scale * mean)

    def _at(self, label: Any) -> int:
        position = None
        if isinstance(label, (str, int, np.integer)) and not isinstance(label, bool):
            position = self._position.get(label)
        if position is None:
            if isinstance(label, Hashable) and label in self._retired:
                raise ValueError(f"arm {label!r} was retired")
            near = difflib.get_close_matches(str(label), [str(x) for x in self._labels], n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            shown = ", ".join(repr(x) for x in self._labels[:8])
            more = ", …" if len(self._labels) > 8 else ""
            raise ValueError(f"unknown arm {brief(label)}: the arms are {shown}{more}{hint}")
        return position

    def add_arm(self, label: Hashable) -> None:
        """Bring a new arm into play. Where arms are pulled once first, it is pulled next.

        Policies with estimated losses give it the smallest one, as if it were level with the best.
        """
        label = checked_label(label)
        if label in self._position:
            raise ValueError(f"there is an arm {label!r} already")
        if label in self._retired:
            raise ValueError(f"arm {label!r} was retired; a new arm needs a new label")
        self._check_addable()
        self._labels = (*self._labels, label)
        self._state = np.hstack([self._state, np.zeros((len(self._state), 1))])
        self._raw_total = np.append(self._raw_total, 0.0)
        self._added(len(self._labels) - 1)
        self._reshape()

    def retire_arm(self, label: Hashable) -> None:
        """Take an arm out of play for good; the others go on as if it had never been there.

        The round t still counts its rewards, and `state()` keeps its pulls and total. Rewards that
        come in later are refused.
        """
        position = self._at(label)
        label = self._labels[position]
        if len(self._labels) <= 2:
            raise ValueError("two arms must stay in play")
        self._check_retirable(position)
        pulls = float(self._state[0, position])
        self._retired[label] = {
            "pulls": pulls,
            "total": float(self.means[position] * pulls) if pulls else 0.0,
        }
        self._labels = tuple(x for x in self._labels if x != label)
        self._state = np.ascontiguousarray(np.delete(self._state, position, axis=1))
        self._raw_total = np.delete(self._raw_total, position)
        self._removed(position)
        self._reshape()

    # ---------------------------------------------------------------------------------------- state

    def state(self) -> dict[str, Any]:
        """All that the policy is, as plain JSON; `from_state` gives the same bits back."""
        return storage.state_of(self)

    def __reduce__(self) -> Any:
        return storage.from_state, (self.state(),)

    def __repr__(self) -> str:
        shown = ", ".join(repr(label) for label in self._labels[:5])
        more = ", …" if len(self._labels) > 5 else ""
        chosen = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}([{shown}{more}]{chosen}, seen={self._seen})"

    def _repr_html_(self) -> str:
        from .preview import preview

        return preview(self)._repr_html_()

    # ----------------------------------------------------------------------------------- validation

    def _validated(self, given: dict[str, Any]) -> dict[str, Any]:
        for name in given:
            if name not in self._declared:
                near = difflib.get_close_matches(name, [*self._declared, *_ARGUMENTS], n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                known = ", ".join(self._declared) or "none of its own"
                raise ValueError(
                    f"{self.slug} has no parameter {name!r}{hint} (its parameters: {known})"
                )
        values = {}
        for name, spec in self._declared.items():
            if name not in given and spec.required:
                raise ValueError(f"{self.slug} needs {name}=: {spec.help}")
            values[name] = spec.validate(self.slug, given.get(name, spec.default))
        return values

    def _default_rewards(self) -> tuple[float, float]:
        ends = {"bounded": (0.0, 1.0), "below": (0.0, 1.0), "nonnegative": (0.0, math.inf)}
        return ends.get(self.ranges[0], (-math.inf, math.inf))

    def _range(self, rewards: tuple[float, float] | None) -> tuple[float, float]:
        if rewards is None:
            return self._default_rewards()
        ends = [as_number(end) for end in rewards] if is_batch(rewards) else []
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            raise ValueError(f"rewards must be a pair of numbers (L, U), not {brief(rewards)}")
        low, high = ends[0], ends[1]
        if not low < high:
            raise ValueError(f"rewards=(L, U) needs L < U, not ({low:g}, {high:g})")
        if any(math.isfinite(end) and abs(end) > LARGEST for end in (low, high)):
            raise ValueError(f"rewards=({low:g}, {high:g}): finite ends go up to {LARGEST:g}")
        kind = {
            (True, True): "bounded", (False, True): "below",
            (True, False): "nonnegative", (False, False): "real",
        }[math.isfinite(low), math.isfinite(high)]  # fmt: skip
        if kind not in self.ranges:
            raise ValueError(f"{self.slug} is for {self.setting}, not for ({low:g}, {high:g})")
        return low, high


def picks(p: Array, u: Array) -> NDArray[np.int64]:
    """For each u the arm that `rules.pick` picks."""
    index = np.searchsorted(np.cumsum(p), u, side="right")
    return np.asarray(np.minimum(index, np.flatnonzero(p)[-1]), dtype=np.int64)


_new_decision = functools.partial(tuple.__new__, Decision)


@functools.cache
def _pick() -> Kernel:
    return build(rules.pick, rules.PICK_SIGNATURE)
