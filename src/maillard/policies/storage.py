"""A policy written down as plain JSON, and read back to the same bits."""

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .checks import brief, checked_label, finite_row, whole
from .counts import possible

if TYPE_CHECKING:
    from .policy import Policy

#: The version of the format of `Policy.state()`.
STATE_FORMAT = 1


def state_of(policy: "Policy") -> dict[str, Any]:
    """What `Policy.state` returns."""
    stored: dict[str, Any] = {
        "format": STATE_FORMAT,
        "policy": policy.slug,
        "arms": list(policy._labels),
        "parameters": {
            name: list(v) if isinstance(v, tuple) else v for name, v in policy.parameters.items()
        },
        "rewards": [x if math.isfinite(x) else str(x) for x in policy.rewards],
        "initial": policy.initial,
        "floor": policy.floor,
        "seen": policy._seen,
        "statistics": {
            name: row.tolist()
            for name, row in zip(policy._row_names(), policy._state, strict=True)
            if name not in policy.derived
        },
        "reward_totals": policy._raw_total.tolist(),
        "memory": policy._memory.tolist(),
        "retired": [[label, kept] for label, kept in policy._retired.items()],
        "coin": None if policy._coin is None else policy._coin.bit_generator.state,
    }
    return stored | policy._extra_state()


#: What kind of thing stands under a name: the others are checked where they are used.
_KINDS: Final[dict[str, tuple[type, str]]] = {
    "parameters": (Mapping, "an object"),
    "rewards": (list, "a list of two numbers"),
    "statistics": (Mapping, "an object"),
    "retired": (list, "a list"),
    "laws": (list, "a list"),
}


def restored(cls: type["Policy"], stored: Mapping[str, Any]) -> "Policy":
    """The policy of this class that a state describes; errors say what is wrong with it."""
    for name, (kind, words) in _KINDS.items():
        if name in stored and not isinstance(stored[name], kind):
            raise ValueError(f"{name} must be {words}, not {brief(stored[name])}")
    policy = cls(
        stored["arms"],
        rewards=tuple(float(x) for x in stored["rewards"]),  # type: ignore[arg-type]
        initial=stored["initial"],
        floor=stored["floor"],
        binarise=None if stored["coin"] is None else 0,
        **stored["parameters"],
    )
    arms = len(policy._labels)
    kept = [name for name in cls._row_names() if name not in cls.derived]
    if set(stored["statistics"]) != set(kept):
        raise ValueError(f"statistics must be {', '.join(kept)}")
    for row, name in enumerate(cls._row_names()):
        if name in kept:
            policy._state[row] = finite_row(stored["statistics"], name, arms)
    policy._raw_total = np.array(finite_row(stored, "reward_totals", arms))
    policy._memory = np.array(finite_row(stored, "memory", policy._memory.size))
    pulls = policy._state[0]
    if not all(_is_count(n) for n in pulls):
        raise ValueError("pulls must be counts")
    if "spread" in kept and np.any(policy._state[cls._row_names().index("spread")] < 0.0):
        raise ValueError("spread must not be negative")
    policy._state[1], fits = possible(policy, pulls, policy._state[1])
    if not np.all(fits):
        raise ValueError("a total is impossible for its pulls")
    for entry in stored["retired"]:
        label, numbers = _retired(entry)
        if label in policy._retired or label in policy._position:
            raise ValueError(f"arm {label!r} cannot be in play and retired, or retired twice")
        policy._retired[label] = numbers
    seen = whole("seen", stored["seen"], low=0)
    if seen != int(pulls.sum() + sum(kept["pulls"] for kept in policy._retired.values())):
        raise ValueError("seen must be the number of all pulls")
    policy._seen = seen
    if policy._coin is not None:
        try:
            policy._coin.bit_generator.state = stored["coin"]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ValueError("coin is not the state of a random generator") from None
    policy._restore_extra(stored)
    return policy


def _is_count(x: float) -> bool:
    return 0.0 <= x == math.floor(x)


def _retired(entry: Any) -> tuple[Any, dict[str, float]]:
    """The label and the numbers of an arm that is no longer in play."""
    if (
        isinstance(entry, list)
        and len(entry) == 2
        and isinstance(entry[1], Mapping)
        and {"pulls", "total"} <= entry[1].keys()
    ):
        pair = {"retired": [entry[1]["pulls"], entry[1]["total"]]}
        n, total = finite_row(pair, "retired", 2)
        if _is_count(n):
            return checked_label(entry[0]), {"pulls": n, "total": total}
    raise ValueError(f"a retired arm is [label, {{pulls, total}}], not {brief(entry)}")


def from_state(state: Mapping[str, Any] | str) -> "Policy":
    """The policy that `Policy.state()` wrote down, as a dictionary or as JSON text."""
    if isinstance(state, str):
        try:
            state = json.loads(state)
        except json.JSONDecodeError as error:
            raise ValueError(f"the state is not JSON: {error}") from None
    if not isinstance(state, Mapping) or "format" not in state or "policy" not in state:
        raise ValueError("this is not the state of a policy: it names no format and no policy")
    if type(state["format"]) is not int or state["format"] != STATE_FORMAT:
        raise ValueError(
            f"the state has format {brief(state['format'])}; "
            f"this version reads format {STATE_FORMAT}"
        )
    from .catalogue import find

    if not isinstance(state["policy"], str):
        raise ValueError(f"a state names its policy, not {brief(state['policy'])}")
    cls = find(state["policy"])
    try:
        return restored(cls, state)
    except KeyError as error:
        raise ValueError(f"the state of {cls.slug} is damaged: {error} is missing") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"the state of {cls.slug} is damaged: {error}") from None
