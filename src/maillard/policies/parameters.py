"""The parameters of a policy: declared once, validated once, shown everywhere."""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .checks import brief

REQUIRED: Final = object()
#: No parameter may be larger: products of two stay finite.
LARGEST: Final = 1e100
#: A scale of rewards or noise: wide enough for every unit, and formulas stay far from overflow.
SCALE: Final[dict[str, Any]] = {"low": 1e-12, "high": 1e12}


class Parameter:
    """A parameter declared in a policy's class body; on an instance it reads as its value.

    Numbers are checked against `low` and `high` (`open=True` excludes the ends). A parameter whose
    default is a tuple takes that many numbers, which a formula knows by the names in `parts`. One
    with `choices` takes one of those words. `optional` ones may be None. A `vector` takes one
    number an arm; the policy itself says where its formulas find them.
    """

    def __init__(
        self,
        default: Any = REQUIRED,
        help: str = "",
        *,
        low: float = -math.inf,
        high: float = math.inf,
        open: bool = False,
        integer: bool = False,
        choices: Sequence[str] = (),
        parts: Sequence[str] = (),
        optional: bool = False,
        vector: bool = False,
    ) -> None:
        self.default = default
        self.help = help
        self.low, self.high, self.open, self.integer = low, high, open, integer
        self.choices, self.optional, self.vector = tuple(choices), optional, vector
        self._parts = tuple(parts)
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, instance: Any, value: Any) -> None:
        raise AttributeError(f"{self.name} is fixed once the policy is made: make another policy")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else instance.parameters[self.name]

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def parts(self) -> tuple[str, ...]:
        """The names under which formulas know it: none for a choice, which picks a formula."""
        return () if self.choices or self.vector else self._parts or (self.name,)

    def numbers(self, value: Any) -> list[float]:
        """The value as the numbers that formulas see; an absent one is 0, and never read."""
        if not self.parts:
            return []
        if value is None:
            return [0.0] * len(self.parts)
        return [float(v) for v in value] if self._parts else [float(value)]

    def validate(self, policy: str, value: Any) -> Any:
        """The value in its plain Python type, or a ValueError that says what is wrong."""
        where = f"{policy}: {self.name}"
        if value is None and self.optional:
            return None
        if self.choices:
            if value not in self.choices:
                words = ", ".join(repr(c) for c in self.choices)
                raise ValueError(f"{where} must be one of {words}, not {brief(value)}")
            return value
        if self.vector:
            if isinstance(value, str) or not hasattr(value, "__iter__"):
                raise ValueError(f"{where} takes one number for each arm, not {brief(value)}")
            return tuple(self._number(where, v) for v in value)
        if self._parts:
            if isinstance(value, str) or not isinstance(value, Sequence):
                value = list(value) if hasattr(value, "__iter__") else [value]
            if len(value) != len(self._parts):
                words = ", ".join(self._parts)
                raise ValueError(f"{where} takes {len(self._parts)} numbers ({words})")
            return tuple(self._number(where, v) for v in value)
        return self._number(where, value)

    def _number(self, where: str, value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(self.default, bool):
            if not isinstance(value, bool):
                raise ValueError(f"{where} must be True or False, not {brief(value)}")
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{where} must be a number, not {brief(value)}")
        inside = self.low < value < self.high if self.open else self.low <= value <= self.high
        if not inside or not abs(value) <= LARGEST:
            raise ValueError(f"{where} must be {self._number_range}, not {brief(value)}")
        if self.integer and value != math.floor(value):
            raise ValueError(f"{where} must be a whole number, not {brief(value)}")
        return int(value) if self.integer else float(value)

    @property
    def range(self) -> str:
        """The allowed values in words."""
        if self.vector:
            return f"one number for each arm, each {self._number_range.removeprefix('a number ')}"
        if self._parts:
            each = self._number_range.removeprefix("a number ")
            return f"{len(self._parts)} numbers, each {each}"
        return self._number_range + (", or left out" if self.optional else "")

    @property
    def _number_range(self) -> str:
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if isinstance(self.default, bool):
            return "true or false"
        kind = "a whole number" if self.integer else "a number"
        if self.low == -math.inf and self.high == math.inf:
            return kind
        if self.high == math.inf:
            return f"{kind} {'above' if self.open else 'of at least'} {self.low:g}"
        brackets = "()" if self.open else "[]"
        return f"{kind} in {brackets[0]}{self.low:g}, {self.high:g}{brackets[1]}"


def horizon_parameter(*, optional: bool = False) -> Parameter:
    """The number of rounds T, for the algorithms whose formula contains it."""
    return Parameter(
        None if optional else REQUIRED,
        "the number of rounds T" + (" (anytime when left out)" if optional else ""),
        low=1,
        integer=True,
        optional=optional,
    )
