"""One package at work, in its own environment: started by `peers.py`, which is the one to run.

    python peer_work.py PACKAGE

It says `ready` when PACKAGE is imported, then answers each line of standard input, a JSON object
{"policy", "means", "horizon", "seed"}, with one: {"seconds": CPU time, "pulls": of each arm}.
Nothing but the package and the standard library is used. Every package is called as its
documentation shows, one decision and one reward at a time.
"""

import argparse
import contextlib
import functools
import importlib
import json
import os
import random
import sys
import time
import types


def smpybandits(policy, arms, seed):
    import numpy as np
    from SMPyBandits import Policies

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  the package draws from NumPy's global generator
    made = {
        "thompson": Policies.Thompson,
        "ucb1": Policies.UCB,
        "moss": Policies.MOSS,
        "kl-ucb": Policies.klUCB,
        "exp3": functools.partial(Policies.Exp3, gamma=0.1),
        "epsilon-greedy": functools.partial(Policies.EpsilonGreedy, epsilon=0.1),
    }[policy](arms)
    made.startGame()
    return made.choice, made.getReward


def smpybandits_compiled(policy, arms, seed):
    """With the package's own `jit`, which looks for Numba where Numba of 2019 had it."""
    return smpybandits(policy, arms, seed)


def mabwiser(policy, arms, seed):
    from mabwiser.mab import MAB, LearningPolicy

    rule = {
        "thompson": LearningPolicy.ThompsonSampling(),
        "ucb1": LearningPolicy.UCB1(alpha=1.0),
        "epsilon-greedy": LearningPolicy.EpsilonGreedy(epsilon=0.1),
    }[policy]
    made = MAB(list(range(arms)), rule, seed=seed)
    made.fit(list(range(arms)), [1] * arms)  # it wants a history before the first decision
    return made.predict, lambda arm, reward: made.partial_fit([arm], [reward])


def river(policy, arms, seed):
    from river import bandit, proba

    made = {
        "thompson": lambda: bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=seed),
        "ucb1": lambda: bandit.UCB(delta=1, burn_in=1, seed=seed),
        "exp3": lambda: bandit.Exp3(gamma=0.1, seed=seed),
        "epsilon-greedy": lambda: bandit.EpsilonGreedy(epsilon=0.1, seed=seed),
    }[policy]()
    return functools.partial(made.pull, list(range(arms))), made.update


def coba(policy, arms, seed):
    from coba.learners import BanditEpsilonLearner, BanditUCBLearner

    made = {
        "ucb1": lambda: BanditUCBLearner(seed=seed),
        "epsilon-greedy": lambda: BanditEpsilonLearner(epsilon=0.1, seed=seed),
    }[policy]()
    actions, last = list(range(arms)), [0.0]

    def choose():
        action, last[0] = made.predict(None, actions)[:2]
        return action

    return choose, lambda arm, reward: made.learn(None, arm, reward, last[0])


def pybandits(policy, arms, seed):
    from pybandits.smab import SmabBernoulli

    if policy != "thompson":
        raise KeyError(policy)
    labels = [str(arm) for arm in range(arms)]
    made = SmabBernoulli.cold_start(action_ids=set(labels), random_seed=seed)

    def choose():
        (label,), _ = made.predict()
        return int(label)

    return choose, lambda arm, reward: made.update([labels[arm]], [reward])


#: Package → what makes a policy of it, as (choose, update), and the modules that it needs.
PACKAGES = {
    "smpybandits": (smpybandits, ["SMPyBandits.Policies"]),
    "smpybandits-compiled": (smpybandits_compiled, ["SMPyBandits.Policies"]),
    "mabwiser": (mabwiser, ["mabwiser.mab"]),
    "river": (river, ["river.bandit"]),
    "coba": (coba, ["coba.learners"]),
    "pybandits": (pybandits, ["pybandits.smab"]),
}


def play(make, policy, means, horizon, seed):
    """CPU seconds of choosing, paying and learning, `horizon` times; and the pulls of each arm."""
    choose, update = make(policy, len(means), seed)
    draw = random.Random(seed).random
    pulls = [0] * len(means)
    start = time.process_time()
    for _ in range(horizon):
        arm = choose()
        update(arm, 1 if draw() < means[arm] else 0)
        pulls[arm] += 1
    return {"seconds": time.process_time() - start, "pulls": pulls}


def load(package):
    make, modules = PACKAGES[package]
    if package == "smpybandits-compiled":
        import numba

        old = types.ModuleType("numba.decorators")
        old.jit = numba.jit
        sys.modules[old.__name__] = old
    for module in modules:
        importlib.import_module(module)
    return make


def main():
    parser = argparse.ArgumentParser(description="Work for peers.py; see there.")
    parser.add_argument("package", choices=PACKAGES)
    package = parser.parse_args().package
    # The answers go where standard output was; what the packages print goes to standard error.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with contextlib.redirect_stdout(sys.stderr):
        make = load(package)
        print("ready", file=answers, flush=True)
        for line in sys.stdin:
            try:
                answer = play(make, **json.loads(line))
            except Exception as problem:
                answer = {"problem": f"{type(problem).__name__}: {problem}"}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
