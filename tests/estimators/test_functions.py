"""Ball covariance in ten lines: an estimator of plain functions has all that others have."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import dhsic
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import Functions
from tests.estimators.levels import Check


@dataclass(frozen=True)
class BallCovariance(Functions):
    """mean_j (P(all in ball j) - prod_m P(x_m in it))^2, of balls through two rows each."""

    n_balls: int = 64
    name = "ball"
    quantity = "ball covariance"

    def function(self, kernel, sample, rng):
        centres, others = sample[rng.integers(len(sample), size=(2, self.n_balls))]
        radii = np.linalg.norm(centres - others, axis=1)
        return lambda x: cdist(x, centres) <= radii


RNG = np.random.default_rng(0)
N = 300
X = RNG.standard_normal((N, 2))
Y = X[:, :1] ** 2 + 0.5 * RNG.standard_normal((N, 1))
APART = RNG.standard_normal((N, 1))
STRATA = np.repeat(["a", "b", "c"], N // 3)
OPTIONS = {"estimator": "ball", "rng": 0, "threads": 1, "kernels": "gaussian"}


@pytest.fixture(autouse=True, scope="module")
def ball():
    dhsic.register(BallCovariance)
    yield
    dhsic.unregister("ball")


def run(*data, **options):
    return dhsic.independence_test(*data, **{**OPTIONS, **options})


def test_estimate__is_that_of_its_definition():
    made = BallCovariance(8)
    found = dhsic.hsic(X, Y, estimator=made, rng=3)
    inside = []
    for m, x in enumerate((X, Y)):
        rows = dhsic._random.generator(3, "bandwidth", m).choice(N, size=N, replace=False)
        rng = dhsic._random.generator(3, "landmarks", m)
        inside.append(made.function(None, x[rows], rng)(x).astype(float))
    (f, h) = inside
    expected = np.mean(((f * h).mean(axis=0) - f.mean(axis=0) * h.mean(axis=0)) ** 2)
    assert found.estimate == pytest.approx(expected, rel=1e-9)
    assert found.quantity == "ball covariance"


@pytest.mark.parametrize("null", ["shifts", "permutation"])
def test_level__is_the_nominal_one(null):
    drawn = (np.random.default_rng(seed).standard_normal((2, 60, 2)) for seed in range(120))
    rejected = (
        run(*pair, null=null, n_resamples=99, rng=seed).pvalue <= 0.1
        for seed, pair in enumerate(drawn)
    )
    assert Check.of(120, 0.1).passes(rejected)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"null": "shifts"},
        {"null": "permutation"},
        {"strata": STRATA},
        {"groups": np.arange(N) // 3},
        {"order": "time"},
        {"kernels": dhsic.Grid.auto()},
        {"precision": "float32"},
        {"memory": "1GiB", "time": "1h"},
        {"estimator": BallCovariance(200)},
    ],
    ids=str,
)
def test_dependence__is_found(options):
    assert run(X, Y, **options).pvalue < 0.03
    assert run(X, APART, **options).pvalue > 0.03


def test_three_variables__jointly_and_in_a_chain():
    sign = np.sign(X[:, 0] * APART[:, 0]) * np.abs(RNG.standard_normal(N))
    assert run(X[:, 0], APART, sign).pvalue < 0.02
    chain = run(X[:, 0], APART, sign, null="chain")
    assert chain.pvalue < 0.02
    assert chain.stages[1].pvalue < 0.02 < chain.stages[0].pvalue


def test_rankings__and_two_samples():
    ranked = dhsic.rank_features(np.c_[APART, X], Y, estimator="ball", rng=0, by="cka")
    assert [one.pvalue < 0.02 for one in ranked.features] == [False, True, False]
    options = {"estimator": "ball", "rng": 0}
    assert dhsic.two_sample_test(X, X[::-1] ** 2, **options).pvalue < 0.01
    same = dhsic.two_sample_test(X[:150], X[150:], **options)
    assert (same.estimator, same.quantity) == ("ball", "ball covariance")
    assert same.pvalue > 0.05


def test_places__have_the_same_result(tmp_path, client):
    import zarr

    group = zarr.open_group(tmp_path / "pair.zarr", mode="w")
    for name, values in (("x", X), ("y", Y)):
        group.create_array(name, data=values, chunks=(100, 1))
    here = run(X, Y)
    stored = run(group["x"], group["y"])
    there = run(group["x"], group["y"], client=client, threads=None)
    assert here.statistic == stored.statistic == there.statistic
    assert here.pvalue == stored.pvalue == there.pvalue


def test_plan__holds_what_a_run_does():
    plan = dhsic.plan(X, Y, estimator="ball")
    assert plan.fits
    assert [one.name for one in plan.passes] == [one.name for one in run(X, Y).passes]


@dataclass(frozen=True)
class Uneven(BallCovariance):
    name = "uneven"

    def function(self, kernel, sample, rng):
        return lambda x: x


@dataclass(frozen=True)
class Flat(BallCovariance):
    name = "flat"

    def function(self, kernel, sample, rng):
        return lambda x: x[:, 0]


@pytest.mark.parametrize(
    ("cls", "match"),
    [
        (Uneven, "'uneven' must have as many values for all variables, got 1 and 2: make 1 of"),
        (Flat, r"'flat' must take rows \(b, d\) to values \(b, r\), got \(2,\) of \(2, 2\)"),
    ],
)
def test_functions__of_other_shapes_are_refused(cls, match):
    dhsic.register(cls)
    try:
        with pytest.raises(InvalidArgumentError, match=match):
            run(X, Y, estimator=cls())
    finally:
        dhsic.unregister(cls)
