"""Policies and environments as a user names them: by name, text, table, class or object.

``thompson:prior=1,1`` is a name, a colon and parameters; commas separate both the parameters and
the numbers of one, and a nested list is written in brackets, as in JSON.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..policies.catalogue import find
from ..policies.policy import Policy


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """The name and parameters in ``name:first=1,second=2,3``."""
    name, colon, rest = text.strip().partition(":")
    parameters: dict[str, list[Any]] = {}
    last = ""
    for word in _words(rest) if colon else []:
        key, equals, value = word.partition("=")
        if equals and key.strip().isidentifier():
            last = key.strip()
            if last in parameters:
                raise ValueError(f"{text!r} gives {last} twice")
            parameters[last] = [_value(value)]
        elif last and word.strip():
            parameters[last].append(_value(word))
        else:
            raise ValueError(f"{text!r} is not of the form name:parameter=value,parameter=value")
    return name.strip(), {k: v[0] if len(v) == 1 else v for k, v in parameters.items()}


def _words(text: str) -> list[str]:
    """The parts between the commas that stand outside of brackets."""
    words, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    return words


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("["):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            raise ValueError(f"{text!r} is not a list of numbers, like [0.1, 0.2]") from None
    if text.lower() in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


# --------------------------------------------------------------------------------------------------
# Policies


def policies_for(given: Any, environment: Any, horizon: int) -> dict[str, Policy]:
    """Label → policy, for one policy or a list of them."""
    single = isinstance(given, (str, Policy, type, Mapping)) or (
        isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping)
    )
    if not single and not isinstance(given, Iterable):
        raise _not_a_policy(given)
    made = [policy_for(one, environment, horizon) for one in ([given] if single else given)]
    if not made:
        raise ValueError("there must be one policy at least")
    return labelled(made)


def policy_for(given: Any, environment: Any, horizon: int) -> Policy:
    """The policy that a name, text, (name, parameters), table, class or object stands for.

    Arms and the range of rewards are the environment's, and a policy that cannot do without the
    horizon gets the simulation's.
    """
    if isinstance(given, Policy):
        return _checked(given, environment)
    cls, parameters = named(given)
    spec = cls._declared.get("horizon")
    if spec is not None and spec.required:
        parameters = {"horizon": horizon, **parameters}
    return _checked(_made(cls, parameters, environment), environment)


def named(given: Any) -> tuple[type[Policy], dict[str, Any]]:
    """The class and the parameters that a description of a policy names."""
    if isinstance(given, str):
        name, parameters = parse(given)
        cls = find(name)
        for key, spec in cls._declared.items():  # a choice is a word even when it looks like 2017
            if spec.choices and key in parameters:
                parameters[key] = str(parameters[key])
        return cls, parameters
    if isinstance(given, type) and issubclass(given, Policy):
        return given, {}
    if isinstance(given, Mapping) and "policy" in given:
        return find(given["policy"]), {k: v for k, v in given.items() if k != "policy"}
    if isinstance(given, Sequence) and len(given) == 2 and isinstance(given[1], Mapping):
        cls, parameters = named(given[0])
        return cls, {**parameters, **given[1]}
    raise _not_a_policy(given)


def _not_a_policy(given: Any) -> ValueError:
    return ValueError(
        f"{given!r} is no policy: give a name such as 'kl-ms', 'thompson:prior=1,1', "
        "('kl-ms', {'booster': 2}), a Policy or its class"
    )


def _made(cls: type[Policy], parameters: dict[str, Any], environment: Any) -> Policy:
    if "rewards" in parameters or "arms" in parameters:
        return cls(parameters.pop("arms", environment.arms), **parameters)
    try:
        return cls(environment.arms, rewards=environment.rewards, **parameters)
    except TypeError as error:  # parameters that are not even strings
        raise ValueError(f"{cls.slug}: {error}") from None
    except ValueError:
        # A policy may be for a wider kind of range only, as Poisson laws are for [0, ∞).
        try:
            wider = cls(environment.arms, **parameters)
        except ValueError:
            wider = None
        if wider is None or not _holds(wider, environment):
            raise
        return wider


def _checked(policy: Policy, environment: Any) -> Policy:
    if policy.round != 1:
        raise ValueError(
            f"{policy.slug} has seen {policy.round - 1} rewards: a trial starts from a new policy"
        )
    if len(policy.arms) != environment.arms:
        raise ValueError(
            f"{policy.slug} has {len(policy.arms)} arms, the environment {environment.arms}"
        )
    if not _holds(policy, environment):
        raise ValueError(
            f"{policy.slug} takes rewards in {list(policy.rewards)}, the environment pays in "
            f"{list(environment.rewards)}"
        )
    return policy


def _holds(policy: Policy, environment: Any) -> bool:
    (low, high), (least, most) = policy.rewards, environment.rewards
    return bool(low <= least and most <= high)


def policy_spec(policy: Policy) -> dict[str, Any]:
    """All that makes a policy what it is, as plain data; infinite ends of the range are None."""
    return {
        "policy": policy.slug,
        **{k: list(v) if isinstance(v, tuple) else v for k, v in policy.parameters.items()},
        "rewards": [x if math.isfinite(x) else None for x in policy.rewards],
        "initial": policy.initial,
        "floor": policy.floor,
        # Each trial tosses the coin from its own stream: the online policy's seed plays no part.
        "binarise": policy._coin is not None,
    }


def labelled(policies: Sequence[Policy]) -> dict[str, Policy]:
    """Policies by name; those of the same name show the parameters in which they differ."""
    specs = [policy_spec(policy) for policy in policies]
    found: dict[str, Policy] = {}
    for policy, spec in zip(policies, specs, strict=True):
        alike = [other for other in specs if other["policy"] == policy.slug]
        shown = [f"{k}={_shown(v)}" for k, v in spec.items() if any(o[k] != v for o in alike)]
        label = policy.slug + (":" + ",".join(shown) if shown else "")
        if label in found:
            raise ValueError(f"{label} is there twice")
        found[label] = policy
    return found


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_shown(x) for x in value)
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


# --------------------------------------------------------------------------------------------------
# Environments


def environment_for(given: Any) -> Any:
    """The environment that an object, a text such as ``gaussian:means=0,1`` or a table stands for.

    A table is what `spec()` gives: the name under ``environment``, and the parameters.
    """
    from ..environments import Environment
    from ..environments.catalogue import environment, environment_from

    if isinstance(given, Environment):
        return given
    if isinstance(given, str):
        name, parameters = parse(given)
        return environment(name, **parameters)
    if isinstance(given, Mapping):
        return environment_from(given)
    raise ValueError(
        f"{given!r} is no environment: give one such as Bernoulli([0.8, 0.9]), or text such as "
        "'bernoulli:means=0.8,0.9'"
    )
