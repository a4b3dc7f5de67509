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
SMALL = {"x": X, "s": X + 1, "a": X[:, 0], "y": Y, "z": RNG.standard_normal((3000, 1))}


class Started(Exception):
    """A run is not refused."""


def stop(event):
    raise Started


def rows(n, d):
    """Rows that take no memory, as variables by their letters; all but x have one column."""
    x = np.broadcast_to(np.arange(d, dtype="float32"), (n, d))
    return dict.fromkeys("yza", x[:, :1]) | dict.fromkeys("xs", x)


def run(case, data, **options):
    """Call a function with variables by their letters; after a bar stands what is given."""
    function, letters, asked = case
    variables, _, given = letters.partition("|")
    known = {"given": data[given]} if given else {}
    return function(*(data[letter] for letter in variables), **known, **asked, **options)


CASES = {
    "independence_test": (dhsic.independence_test, "xy", {}),
    "of three": (dhsic.independence_test, "xsy", {}),
    "hsic": (dhsic.hsic, "xy", {}),
    "interval": (dhsic.hsic, "xy", {"confidence": 0.95}),
    "interval of a test": (dhsic.independence_test, "xy", {"confidence": 0.95, "minimum": 0.1}),
    "dependence_difference": (dhsic.dependence_difference, "xzy", {}),
    "rank_features": (dhsic.rank_features, "xy", {}),
    "by sensitivity": (dhsic.rank_features, "xy", {"by": "sensitivity"}),
    **{
        method: (dhsic.select_features, "xy", {"k": 1, "method": method})
        for method in ("forward", "backward", "lasso")
    },
    "dependence_matrix": (dhsic.dependence_matrix, "xyz", {}),
    "intervals of a matrix": (dhsic.dependence_matrix, "xyz", {"confidence": 0.95}),
    "lag_scan": (dhsic.lag_scan, "xy", {"lags": 24}),
    "two_sample_test": (dhsic.two_sample_test, "xs", {}),
    "mean_embedding": (dhsic.mean_embedding, "x", {}),
    "interaction_test": (dhsic.interaction_test, "xyz", {}),
    "sensitivity_map": (dhsic.sensitivity_map, "xy", {}),
    "witness_functions": (dhsic.witness_functions, "xy", {}),
    "conditional_independence_test": (dhsic.conditional_independence_test, "xy|z", {}),
    "given": (causal.residual_independence_test, "ay|z", {}),
    "direction": (causal.direction, "ay", {}),
    "direction by maps": (causal.direction, "ay", {"criterion": "sensitivity"}),
    "score_dags": (causal.score_dags, "ayz", {}),
    "search_dag": (causal.search_dag, "ayz", {}),
}
BILLION = ["independence_test", "rank_features", "dependence_matrix", "mean_embedding"]
LINEAR = [name for name, cls in dhsic.estimators.ESTIMATORS.items() if cls.cost != "n^2"]


@pytest.mark.parametrize("name", CASES)
def test_default__is_not_refused(name):
    with pytest.raises(Started):
        run(CASES[name], rows(2_000_000, 20), rng=0, threads=2, progress=stop)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in BILLION else pytest.mark.nightly)
        for name in CASES
        # Planning the first takes half a minute; rows of a series are held as numbers.
        if name not in ("of three", "lag_scan")
    ],
)
def test_default__of_a_billion_rows_is_not_refused(name):
    with pytest.raises(Started):
        run(CASES[name], rows(1_000_000_000, 90), rng=0, threads=2, progress=stop)


@pytest.mark.parametrize("estimator", LINEAR)
def test_name__is_not_refused(estimator):
    case = dhsic.independence_test, "xy", {"estimator": estimator}
    with pytest.raises(Started):
        run(case, rows(2_000_000, 20), rng=0, threads=2, progress=stop)


LESS = r"\d+ landmarks, since (\d+ landmarks|all pairs of rows) would take .* allow so much"
LITTLE = {
    "hsic": ("6MiB", {"estimator": "coco"}),
    "rank_features": ("4MiB", {"estimator": "nystrom-m"}),
    "forward": ("4MiB", {}),
    "two_sample_test": ("8MiB", {"estimator": "nystrom-mmd"}),
    "mean_embedding": ("4MiB", {}),
    "dependence_matrix": ("7MiB", {}),
    "interaction_test": ("8MiB", {}),
    "sensitivity_map": ("14MiB", {}),
    "witness_functions": ("6MiB", {}),
    "given": ("16MiB", {}),
    "direction": ("8MiB", {}),
    "direction by maps": ("10MiB", {}),
    "score_dags": ("9MiB", {"dags": "complete"}),
    "search_dag": ("8MiB", {}),
}


def reason_of(result):
    for one in (result, *(getattr(result, part, None) for part in ("landmarks", "measured"))):
        for field in ("estimator_reason", "choice"):
            if "since" in str(getattr(one, field, "")):
                return getattr(one, field)
    return ""


@pytest.mark.parametrize("name", LITTLE)
def test_little_memory_or_time__takes_less_and_says_so(name, no_libraries):
    memory, asked = LITTLE[name]
    for little in ({"memory": memory}, {"time": 0.002}):
        found = run(CASES[name], SMALL, rng=0, threads=2, **asked, **little)
        assert re.search(LESS, reason_of(found))


ASKED = {
    "rank_features": {"estimator": dhsic.NystromMHSIC(1500)},
    "mean_embedding": {"n_landmarks": 2000},
    "dependence_matrix": {"n_landmarks": 1000},
    "interaction_test": {"estimator": dhsic.NystromMHSIC(800)},
    "score_dags": {"estimator": dhsic.NystromMHSIC(2000)},
}


@pytest.mark.parametrize("name", ASKED)
def test_landmarks_asked_for__are_refused_with_what_fits(name, no_libraries):
    with pytest.raises(MemoryBudgetError, match=r"; at most [\d,]+ landmarks.* would fit$"):
        run(CASES[name], SMALL, rng=0, threads=2, memory="16MiB", **ASKED[name])
