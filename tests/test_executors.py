"""The same bits on threads, on processes and on a Dask cluster, and what happens when one dies."""

import importlib
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import maillard as mb
from maillard.environments import Bernoulli
from maillard.policies.policy import REGISTRY
from maillard.simulation import plan
from maillard.simulation.plan import Plan, run_piece

WORLD = Bernoulli([0.3, 0.6])
POLICIES = ["kl-ms", "thompson:prior=1,1"]


@pytest.fixture
def own_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of somebody's own policies, which a worker has to import."""
    (tmp_path / "own_policies.py").write_text(
        "from maillard.policies.maillard import KLMS\n"
        "class AnotherKLMS(KLMS):\n"
        "    slug = 'another-kl-ms'\n"
        "class Unnamed(KLMS):\n"
        "    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("own_policies")
    del REGISTRY["another-kl-ms"], sys.modules["own_policies"]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks although little is simulated."""
    monkeypatch.setattr(plan, "_PIECE", 1)


def run(executor: Executor | None = None, policies: Any = POLICIES, **given: Any) -> mb.Result:
    settings = {"horizon": 15, "trials": 200, "seed": 1, "checkpoints": 5}
    return mb.simulate(policies, WORLD, executor=executor, **{**settings, **given})


def spawned(workers: int) -> ProcessPoolExecutor:
    """Processes that start from nothing, as they do everywhere but on Linux."""
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


class Dying(Executor):
    """Works on so many tasks at once, then breaks in one of several ways."""

    def __init__(self, tasks: int, how: str) -> None:
        self.tasks, self.how = tasks, how

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.tasks -= 1
        future: Future[Any] = Future()
        if self.tasks >= 0:
            future.set_result(function(*args, **kwargs))
        elif self.how == "refuses":
            raise RuntimeError("cannot schedule new futures after shutdown")
        elif self.how == "cancels":
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_exception(OSError("the network\nis gone"))
        return future


def test_threads_of_somebody_else() -> None:
    with ThreadPoolExecutor(3) as pool:
        assert run(pool) == run()
        assert run(pool, workers=2) == run()
        assert pool.submit(int, "3").result() == 3  # it is still open


@pytest.mark.parametrize("how", ["refuses", "cancels", "fails"])
def test_an_executor_that_dies_is_one_line_and_keeps_what_is_complete(
    how: str, tmp_path: Path
) -> None:
    expected = (
        r"the executor failed in thompson, \d+ of 200 trials complete, kept in .* for resume=True: "
    )
    with Dying(6, how) as pool, pytest.raises(mb.SimulationError, match=expected) as caught:
        run(pool, folder=tmp_path)
    assert "\n" not in str(caught.value)
    result = caught.value.result
    assert result["kl-ms"].trials == 200
    assert result["thompson"].trials == 128
    assert not result.complete
    assert mb.Result.read(tmp_path) == result
    assert run(folder=tmp_path, resume=True) == run()
    with Dying(0, how) as pool, pytest.raises(mb.SimulationError, match="0 of 200") as caught:
        run(pool)
    assert caught.value.result["kl-ms"].trials == 0


def test_a_task_is_a_few_kilobytes_and_travels() -> None:
    work = Plan.of("kl-ms", WORLD, 100, 10, 0, 256, "log", [0.5], False, 0)
    text = pickle.dumps((run_piece, work.jobs[0]))
    assert len(text) < 20_000
    back, job = pickle.loads(text)
    assert back is run_piece
    assert job.spec == work.jobs[0].spec


@pytest.mark.slow
def test_processes(own_policies: Any) -> None:
    policies = [*POLICIES, own_policies.AnotherKLMS]
    with spawned(2) as pool:
        assert run(pool, policies, workers=2) == run(None, policies)
        with pytest.raises(mb.SimulationError, match="Unnamed travels to another process by its"):
            run(pool, own_policies.Unnamed)


def die(*_: Any) -> None:
    os._exit(1)


@pytest.mark.slow
def test_a_process_that_is_killed(tmp_path: Path) -> None:
    with spawned(1) as pool:
        pool.submit(die)
        with pytest.raises(mb.SimulationError, match=r"0 of 200 trials complete: BrokenProcess"):
            run(pool, folder=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------------------------
# A Dask cluster of one process on this machine


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
def test_dask(client: Any, tmp_path: Path) -> None:
    with client.get_executor() as pool:
        assert run(pool) == run()
        parts = [run(pool, first=100 * i, trials=100) for i in (1, 0)]
        assert parts[0].merge(parts[1]) == run()
        assert run(pool, folder=tmp_path) == run()


@pytest.mark.slow
def test_evaluation_on_processes_and_dask(client: Any, tmp_path: Path) -> None:
    """Sequential estimators too: pieces of a log, worked on elsewhere, merged in their order."""
    rng = np.random.default_rng(0)
    rows, arms = 20_000, 3
    every = rng.dirichlet([3.0, 2.0, 1.0], rows)
    arm = (rng.random((rows, 1)) > every.cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
    table = pa.table({
        "arm": arm, "propensity": every[np.arange(rows), arm],
        "reward": (rng.random(rows) < 0.2 + 0.2 * arm).astype(float),
        "round": np.arange(1, rows + 1),
        "probabilities": pa.FixedSizeListArray.from_arrays(pa.array(every.ravel()), arms),
    })  # fmt: skip
    parts = tmp_path / "log"
    for start in range(0, rows, 5_000):
        mb.Log.read(table.slice(start, 5_000), arms=arms).write(parts, append=start > 0)
    options: Any = {"estimators": "all", "intervals": ["kt", "normal", "dr-betting"]}
    whole = mb.evaluate(parts, **options)
    with client.get_executor() as dask, spawned(2) as processes:
        first, *others = (
            mb.evaluate(parts, executor=pool, pieces=4, **options)
            for pool in (dask, processes, dask)
        )
    assert all(other.estimates == first.estimates for other in others)  # to the last bit
    for one, other in zip(first.estimates, whole.estimates, strict=True):
        assert one[:2] == other[:2]
        assert one[2:8] == pytest.approx(other[2:8], rel=1e-9, nan_ok=True)
    assert first.diagnostics.rows == rows


@pytest.mark.slow
def test_a_dask_worker_that_fails(client: Any) -> None:
    class Failing(Executor):
        """Sends every task to the cluster, the fifth to a function that raises there."""

        sent = 0

        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            self.sent += 1
            if self.sent == 5:
                return inner.submit(divmod, 1, 0)
            return inner.submit(function, *args, **kwargs)

    with client.get_executor() as inner:
        with pytest.raises(mb.SimulationError, match=r"thompson, \d+ of 200.*ZeroDivisionError"):
            run(Failing())
        assert run(inner) == run()


@pytest.mark.slow
def test_the_example_prints_the_same_table_on_any_executor(client: Any) -> None:
    example = Path(__file__).parent.parent / "examples" / "sweep.py"
    small = ["--instances", "3", "--trials", "10", "--horizon", "50"]
    address = client.scheduler_info()["address"]
    texts = [
        subprocess.run(
            [sys.executable, str(example), *small, "--executor", *words],
            check=True, capture_output=True, text=True,
        ).stdout
        for words in (["own"], ["processes"], ["dask"], ["dask", "--address", address])
    ]  # fmt: skip
    assert len(set(texts)) == 1
    assert texts[0].startswith("3 instances, 5 arms, 50 rounds, 10 trials each\n")
    assert texts[0].count("\n") == 7
