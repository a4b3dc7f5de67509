"""Every public function fits the memory at default arguments, and says what it left out."""

import re

import numpy as np
import pytest

import dhsic
from dhsic import causal
from dhsic.errors import MemoryBudgetError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3000, 3))
Y = X[:, :1] ** 2 + RNG.standard_normal((3000, 1))
Z = RNG.standard_normal((3000, 1))


class Started(Exception):
    """A run is not refused."""


def stop(event):
    raise Started


def rows(n, d=1):
    """Rows that take no memory."""
    return np.broadcast_to(np.arange(d, dtype="float32"), (n, d))


def calls(n, d):
    x, y = rows(n, d), rows(n)
    return {
        "independence_test": lambda **o: dhsic.independence_test(x, y, **o),
        "of three": lambda **o: dhsic.independence_test(x, x, y, **o),
        "hsic": lambda **o: dhsic.hsic(x, y, **o),
        "rank_features": lambda **o: dhsic.rank_features(x, y, **o),
        "by sensitivity": lambda **o: dhsic.rank_features(x, y, by="sensitivity", **o),
        "forward": lambda **o: dhsic.select_features(x, y, 1, **o),
        "backward": lambda **o: dhsic.select_features(x, y, 1, method="backward", **o),
        "linear": lambda **o: dhsic.select_features(x, y, 1, method="linear", **o),
        "lasso": lambda **o: dhsic.select_features(x, y, 1, method="lasso", **o),
        "dependence_matrix": lambda **o: dhsic.dependence_matrix(x, y, **o),
        "two_sample_test": lambda **o: dhsic.two_sample_test(x, x, **o),
        "mean_embedding": lambda **o: dhsic.mean_embedding(x, **o),
        "interaction_test": lambda **o: dhsic.interaction_test(x, x, y, **o),
        "sensitivity_map": lambda **o: dhsic.sensitivity_map(x, y, **o),
        "witness_functions": lambda **o: dhsic.witness_functions(x, y, **o),
        "conditional_independence_test": lambda **o: dhsic.conditional_independence_test(
            x, y, given=y, **o
        ),
        "given": lambda **o: causal.residual_independence_test(x, y, given=y, **o),
        "direction": lambda **o: causal.direction(x, y, **o),
        "score_dags": lambda **o: causal.score_dags(y, y, y, **o),
        "search_dag": lambda **o: causal.search_dag(y, y, y, **o),
    }


BILLION = ["independence_test", "rank_features", "dependence_matrix", "mean_embedding"]
CASES = [
    *((name, 2_000_000, 20) for name in calls(1, 1)),
    *((name, 1_000_000_000, 90) for name in BILLION),
    *(
        pytest.param(name, 1_000_000_000, 90, marks=pytest.mark.nightly)
        for name in calls(1, 1)
        if name not in (*BILLION, "of three")
    ),
]


@pytest.mark.parametrize(("name", "n", "d"), CASES)
def test_default__is_not_refused(name, n, d):
    with pytest.raises(Started):
        calls(n, d)[name](rng=0, threads=2, progress=stop)


LINEAR = [one.estimator.name for one in dhsic.estimators.TABLE if one.cost != "n^2"]


@pytest.mark.parametrize("estimator", LINEAR)
def test_name__is_not_refused(estimator):
    with pytest.raises(Started):
        dhsic.independence_test(
            *(rows(2_000_000, 20), rows(2_000_000)),
            estimator=estimator,
            rng=0,
            threads=2,
            progress=stop,
        )


LITTLE = {
    "hsic": (lambda **o: dhsic.hsic(X, Y, estimator="coco", **o), "6MiB"),
    "rank_features": (
        lambda **o: dhsic.rank_features(X, Y, estimator="nystrom-m", **o),
        "16MiB",
    ),
    "select_features": (lambda **o: dhsic.select_features(X, Y, 1, **o), "4MiB"),
    "two_sample_test": (
        lambda **o: dhsic.two_sample_test(X, X + 1, estimator="nystrom-mmd", **o),
        "24MiB",
    ),
    "mean_embedding": (lambda **o: dhsic.mean_embedding(X, **o), "4MiB"),
    "dependence_matrix": (lambda **o: dhsic.dependence_matrix(X, Y, Z, **o), "8MiB"),
    "interaction_test": (lambda **o: dhsic.interaction_test(X, Y, Z, **o), "16MiB"),
    "sensitivity_map": (lambda **o: dhsic.sensitivity_map(X, Y, **o), "14MiB"),
    "witness_functions": (lambda **o: dhsic.witness_functions(X, Y, **o), "6MiB"),
    "given": (
        lambda **o: causal.residual_independence_test(X[:, 1], Y, given=Z, **o),
        "16MiB",
    ),
    "direction": (lambda **o: causal.direction(X[:, 0], Y, **o), "8MiB"),
    "direction by maps": (
        lambda **o: causal.direction(X[:, 0], Y, criterion="sensitivity", **o),
        "10MiB",
    ),
    "score_dags": (lambda **o: causal.score_dags(X[:, 0], Y, Z, dags="complete", **o), "10MiB"),
    "search_dag": (lambda **o: causal.search_dag(X[:, 0], Y, Z, **o), "8MiB"),
}


LESS = r"\d+ landmarks, since (\d+ landmarks|all pairs of rows) would take .* allow so much"


def reason_of(result):
    for one in (result, *(getattr(result, part, None) for part in ("landmarks", "measured"))):
        for field in ("estimator_reason", "choice"):
            if "since" in str(getattr(one, field, "")):
                return getattr(one, field)
    return ""


@pytest.mark.parametrize(("run", "memory"), LITTLE.values(), ids=LITTLE)
def test_little_memory_or_time__takes_less_and_says_so(run, memory, no_libraries):
    for little in ({"memory": memory}, {"time": 0.002}):
        assert re.search(LESS, reason_of(run(rng=0, threads=2, **little)))


ASKED = {
    "rank_features": lambda **o: dhsic.rank_features(X, Y, estimator=dhsic.NystromMHSIC(800), **o),
    "mean_embedding": lambda **o: dhsic.mean_embedding(X, n_landmarks=2000, **o),
    "dependence_matrix": lambda **o: dhsic.dependence_matrix(X, Y, Z, n_landmarks=1000, **o),
    "interaction_test": lambda **o: dhsic.interaction_test(
        X, Y, Z, estimator=dhsic.NystromMHSIC(800), **o
    ),
    "score_dags": lambda **o: causal.score_dags(
        X[:, 0], Y, Z, estimator=dhsic.NystromMHSIC(2000), **o
    ),
}


@pytest.mark.parametrize("run", ASKED.values(), ids=ASKED)
def test_landmarks_asked_for__are_refused_with_what_fits(run, no_libraries):
    with pytest.raises(MemoryBudgetError, match=r"; at most [\d,]+ landmarks.* would fit$"):
        run(rng=0, threads=2, memory="16MiB")
