"""What a newcomer's formula may not silently get wrong, and misuse in odd types."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import maillard as mb
from maillard.policies.families import Indexed, LossWeighted, Perturbed, Weighted
from maillard.policies.parameters import Parameter
from maillard.policies.policy import REGISTRY, Policy
from maillard.policies.quadrature import GAUSSIAN


@pytest.fixture(autouse=True)
def _no_leftovers():
    """The catalogue as it was: the classes of these tests are nobody's policies."""
    before = mb.catalogue()
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def law_of_best(pulls, best):
    return best, 1.0, 1e300


def mixture_of_best(best):
    return 1.0 - best


def loss_of_pulls(reward, propensity, pulls):
    return pulls * (1.0 - reward) / propensity


def a_weight(mean):
    return mean


def played(cls: type[Policy]) -> np.ndarray:
    """The probabilities after a reward of each of two arms."""
    policy = cls(2)
    policy.update([0, 1], [1.0, 0.0], propensity=0.5)
    return policy.probabilities()


class TestWordsThatAHookDoesNotKnow:
    """A word that a hook is never given is an error, not a zero."""

    def test_the_law_of_an_arm_does_not_know_the_best(self):
        body = {"slug": "audit-law", "family": GAUSSIAN, "law": staticmethod(law_of_best)}
        with pytest.raises(TypeError, match="asks for 'best'"):
            played(type("LawOfBest", (Perturbed,), body))

    def test_a_mixture_does_not_know_the_arms(self):
        body = {
            "slug": "audit-mixture",
            "log_weight": staticmethod(a_weight),
            "mixture": staticmethod(mixture_of_best),
        }
        with pytest.raises(TypeError, match="asks for 'best'"):
            played(type("MixtureOfBest", (Weighted,), body))

    def test_a_loss_estimate_does_not_know_the_pulls(self):
        body = {
            "slug": "audit-loss",
            "log_weight": staticmethod(a_weight),
            "loss_estimate": staticmethod(loss_of_pulls),
        }
        with pytest.raises(TypeError, match="asks for 'pulls'"):
            played(type("LossOfPulls", (LossWeighted,), body))


@pytest.mark.parametrize(
    ("base", "body", "message"),
    [
        (Perturbed, {"rows": ("spread",)}, "begin with 'chance'"),
        (LossWeighted, {"rows": ("spread",)}, "begin with 'loss'"),
        (Indexed, {"rows": ("mine", "spread")}, "'spread' must be the first"),
        (Indexed, {"rows": ("one", "two", "three")}, "at most 2 rows"),
        (Indexed, {"pulls": Parameter(1.0)}, "has a 'pulls' already"),
        (Indexed, {"rows": ("spread",), "variance": Parameter(1.0)}, "know 'variance' already"),
        (Indexed, {"round": Parameter(1.0)}, "has a 'round' already"),
        (Indexed, {"floor": Parameter(1.0)}, "has a 'floor' already"),
        (Indexed, {f"p{i}": Parameter(1.0) for i in range(9)}, "at most 8 numbers"),
        (Indexed, {"slug": "kl-ms"}, "there is a policy 'kl-ms' already"),
    ],
)
def test_a_class_that_would_compute_something_else_is_refused(base, body, message):
    with pytest.raises(TypeError, match=message):
        type("Mine", (base,), body)
    assert REGISTRY["kl-ms"] is mb.KLMS


def test_a_class_defined_again_takes_its_own_place():
    first = type("Again", (Weighted,), {"slug": "audit-again"})
    second = type("Again", (Weighted,), {"slug": "audit-again"})
    assert REGISTRY["audit-again"] is second is not first


ODD = [np.array([[1, 2], [3, 4]]), 10**400, "two\nlines", object()]


@pytest.mark.parametrize("odd", ODD, ids=["array", "large", "string", "object"])
@pytest.mark.parametrize(
    "use",
    [
        lambda odd: mb.policy(odd, 2),
        lambda odd: mb.policy("kl-ms", odd),
        lambda odd: mb.policy("kl-ms", 2, floor=odd),
        lambda odd: mb.policy("kl-ms", 2, initial=odd),
        lambda odd: mb.policy("kl-ms", 2, booster=odd),
        lambda odd: mb.policy("kl-ms", 2).update(0, odd),
        lambda odd: mb.policy("kl-ms", 2).update(odd, 1.0),
        lambda odd: mb.policy("exp3", 2).update(0, 1.0, propensity=odd),
        lambda odd: mb.policy("kl-ms", 2).update_counts(odd, [0, 0]),
        lambda odd: mb.policy("kl-ms", 2).decide(np.random.default_rng(0), size=odd),
        lambda odd: mb.policy("kl-ms", 2).decide(np.random.default_rng(0), eligible=odd),
        lambda odd: mb.describe(odd),
        lambda odd: mb.from_state({"format": odd, "policy": "kl-ms"}),
    ],
)
def test_what_is_odd_is_refused_on_one_short_line(use: Callable[[object], object], odd: object):
    with pytest.raises(ValueError, match=r".") as caught:
        use(odd)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_class_that_is_no_policy_has_no_description():
    with pytest.raises(ValueError, match="int is no policy"):
        mb.describe(int)


@pytest.mark.parametrize("counts", [["1", "2"], np.array(["2020-01-01"] * 2, dtype="datetime64")])
def test_counts_are_numbers(counts):
    with pytest.raises(ValueError, match="pulls must be numbers"):
        mb.policy("kl-ms", 2).update_counts(counts, [0, 0])


@pytest.mark.parametrize(("pulls", "totals"), [([np.inf, 1], [0, 0]), ([1, 1], [np.nan, 0])])
def test_infinite_counts_are_refused_without_a_warning(pulls, totals):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"must be a count|impossible"):
            mb.policy("kl-ms", 2).update_counts(pulls, totals)


def test_a_fixed_distribution_is_not_restored_from_other_weights():
    stored = mb.policy("fixed", 2, weights=[1, 3]).state()
    stored["statistics"]["weight"] = [-1.0, 3.0]
    with pytest.raises(ValueError, match="repeat the weights"):
        mb.from_state(stored)


def test_probabilities_are_the_callers_own():
    policy = mb.policy("kl-ms", 3)
    policy.probabilities()[:] = 7.0
    policy.log_probabilities()[:] = 7.0
    np.testing.assert_array_equal(policy.probabilities(), [1 / 3] * 3)
    np.testing.assert_array_equal(policy.probabilities(policy.arms), [1 / 3] * 3)
    assert policy.probabilities([2, 1, 0]).tolist() == [1 / 3] * 3
    assert [d.arm for d in policy.decide(np.random.default_rng(0), size=3)]
