"""The yardstick: a lockstep simulator of KL-MS and MS, written directly against Numba.

64 trials advance together, the innermost loop over trials, log and exp as inlined polynomials, the
policy a compiled function over the block. It knows Bernoulli rewards, whole blocks, a fixed order
of first pulls and nothing else, and its log and exp are good to a few ulp on the range used here
only. No library code is used, so a change of ours cannot change what we compare with.

    python benchmarks/sketch.py
"""

import argparse
import functools
from typing import Any

import numba as nb
import numpy as np
from numba import float64, int64, types, void
from timing import HORIZON, INSTANCES, ROUNDS, best_interleaved, cpu_seconds, table

LANES = 64
TRIALS = 512
u64 = np.uint64
#: Never `nnan` or `ninf`: infinities mean something here.
FLAGS = {"contract", "nsz", "arcp"}
OPTIONS = {"fastmath": FLAGS, "error_model": "numpy"}

#: Pulls, totals, weights to fill, the largest mean of each i, t.
POLICY = void(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], int64)
ENGINE = float64[::1](types.FunctionType(POLICY), float64[::1], int64, int64, int64)

inlined = nb.njit(inline="always")


@inlined
def log(x):
    """ln x for finite x > 0, without branches or calls (the polynomial of fdlibm)."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits - np.int64(0x3FE6A09E667F3BCD)) >> np.int64(52)
    f = np.int64(bits - (exponent << np.int64(52))).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (
        3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01)
    )
    odd = z * (
        6.666666666666735130e-01
        + w
        * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    half = 0.5 * f * f
    k = np.float64(exponent)
    low = s * (half + even + odd) + k * 1.90821492927058770002e-10
    return k * 6.93147180369123816490e-01 - ((half - low) - f)


@inlined
def exp(x):
    """e^x for x ≤ 0: the series to the 11th power, scaled by two powers of 2."""
    x = max(x, -745.0)
    n = np.rint(x * 1.4426950408889634)
    r = x - n * 6.93147180369123816490e-01
    r = r - n * 1.90821492927058770002e-10
    p = 1.0 / 39916800
    p = p * r + 1.0 / 3628800
    p = p * r + 1.0 / 362880
    p = p * r + 1.0 / 40320
    p = p * r + 1.0 / 5040
    p = p * r + 1.0 / 720
    p = p * r + 1.0 / 120
    p = p * r + 1.0 / 24
    p = p * r + 1.0 / 6
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    k = np.int64(n)
    half = k >> np.int64(1)
    left = np.int64((half + 1023) << np.int64(52)).view(np.float64)
    right = np.int64((k - half + 1023) << np.int64(52)).view(np.float64)
    return p * left * right


@inlined
def kl(a, b):
    tiny = 1e-300
    won = a * log(max(a, tiny) / max(b, tiny))
    return won + (1.0 - a) * log(max(1.0 - a, tiny) / max(1.0 - b, tiny))


@inlined
def kl_maillard(pulls, mean, best, t):
    return -pulls * max(kl(mean, best), 0.0)


@inlined
def maillard(pulls, mean, best, t):
    gap = best - mean
    return -2.0 * pulls * gap * gap


@inlined
def uniform(a0, a1, a2, a3):
    """A step of xoshiro256++: a double in [0, 1), and the next state."""
    r = ((a0 + a3) << u64(23) | (a0 + a3) >> u64(41)) + a0
    t = a1 << u64(17)
    a2 ^= a0
    a3 ^= a1
    a1 ^= a2
    a0 ^= a3
    a2 ^= t
    a3 = (a3 << u64(45)) | (a3 >> u64(19))
    return np.int64((r >> u64(12)) | u64(0x3FF0000000000000)).view(np.float64) - 1.0, a0, a1, a2, a3


def _weighted(log_weight: Any) -> Any:
    """p_a ∝ exp(log_weight), over the block."""

    def block(pulls, total, weight, best, t):
        arms = pulls.shape[0]
        for i in range(LANES):
            best[i] = -1e300
        for a in range(arms):
            for i in range(LANES):
                weight[a, i] = total[a, i] / pulls[a, i]
                best[i] = max(best[i], weight[a, i])
        for a in range(arms):
            for i in range(LANES):
                weight[a, i] = exp(log_weight(pulls[a, i], weight[a, i], best[i], t))

    return nb.njit(POLICY, **OPTIONS)(block)


def _regret(policy, means, horizon, trials, seed):
    """Pseudo-regret of each trial; `trials` a multiple of LANES."""
    arms = means.size
    out = np.zeros(trials)
    total = np.zeros((arms, LANES))
    pulls = np.zeros((arms, LANES))
    weight = np.zeros((arms, LANES))
    s0 = np.zeros(LANES, np.uint64)
    s1 = np.zeros(LANES, np.uint64)
    s2 = np.zeros(LANES, np.uint64)
    s3 = np.zeros(LANES, np.uint64)
    draw = np.zeros(LANES)
    coin = np.zeros(LANES)
    best = np.zeros(LANES)
    mass = np.zeros(LANES)
    edge = np.zeros(LANES)
    loss = np.zeros(LANES)
    top = means.max()
    for first in range(0, trials, LANES):
        for i in range(LANES):
            z = u64(seed) + u64(first + i) * u64(0x9E3779B97F4A7C15)
            for word in range(4):
                z += u64(0x9E3779B97F4A7C15)
                y = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
                y = (y ^ (y >> u64(27))) * u64(0x94D049BB133111EB)
                y = y ^ (y >> u64(31))
                if word == 0:
                    s0[i] = y
                elif word == 1:
                    s1[i] = y
                elif word == 2:
                    s2[i] = y
                else:
                    s3[i] = y
        total[:] = 0.0
        pulls[:] = 0.0
        loss[:] = 0.0
        for t in range(horizon):
            for i in range(LANES):
                draw[i], s0[i], s1[i], s2[i], s3[i] = uniform(s0[i], s1[i], s2[i], s3[i])
                coin[i], s0[i], s1[i], s2[i], s3[i] = uniform(s0[i], s1[i], s2[i], s3[i])
            if t < arms:
                for i in range(LANES):
                    total[t, i] += 1.0 if coin[i] < means[t] else 0.0
                    pulls[t, i] += 1.0
                    loss[i] += top - means[t]
                continue
            policy(pulls, total, weight, best, t)
            for i in range(LANES):
                mass[i] = 0.0
                edge[i] = 0.0
            for a in range(arms):
                for i in range(LANES):
                    mass[i] += weight[a, i]
            for i in range(LANES):
                draw[i] *= mass[i]
            for a in range(arms):
                gap = top - means[a]
                for i in range(LANES):
                    upper = edge[i] + weight[a, i]
                    hit = 1.0 if (draw[i] >= edge[i]) & (draw[i] < upper) else 0.0
                    edge[i] = upper
                    total[a, i] += hit if coin[i] < means[a] else 0.0
                    pulls[a, i] += hit
                    loss[i] += hit * gap
        for i in range(LANES):
            out[first + i] = loss[i]
    return out


@functools.cache
def policy(name: str) -> Any:
    """The block of a policy, compiled at first use."""
    return _weighted({"kl-ms": kl_maillard, "ms": maillard}[name])


@functools.cache
def engine() -> Any:
    """The loop over trials and rounds, compiled at first use."""
    return nb.njit(ENGINE, nogil=True, **OPTIONS)(_regret)


def run(name: str, means: np.ndarray, horizon: int, trials: int, seed: int = 0) -> np.ndarray:
    """Pseudo-regret of each of the trials."""
    return engine()(policy(name), np.ascontiguousarray(means), horizon, trials, seed)


def seconds_per_step(name: str, means: np.ndarray) -> float:
    """One measurement."""
    return cpu_seconds(lambda: run(name, means, HORIZON, TRIALS)) / TRIALS / HORIZON


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the yardstick alone.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="repetitions (%(default)s)")
    rounds = parser.parse_args().rounds
    cases = {}
    for name in ("kl-ms", "ms"):
        for arms, means in INSTANCES.items():
            run(name, means, 100, LANES)
            cases[name, arms] = functools.partial(seconds_per_step, name, means)
    best = best_interleaved(cases, rounds, "yardstick")
    rows = [
        [name, *(f"{best[name, arms] * 1e9:.2f}" for arms in INSTANCES)] for name in ("kl-ms", "ms")
    ]
    print(table(["ns per step", *(f"{arms} arms" for arms in INSTANCES)], rows))


if __name__ == "__main__":
    main()
