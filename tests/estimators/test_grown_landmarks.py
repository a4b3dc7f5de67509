"""n_landmarks="auto": as many landmarks as a pilot asks for."""

import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import dhsic
from benchmarks.shared.cases import gaussian, linear
from dhsic import NystromMHSIC
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.landmark.draws import ALLOWED
from dhsic.kernels import Gaussian
from dhsic.landmarks import grow, landmark_count, uniform_rows
from tests import oracles
from tests.estimators.test_level import LEVEL, found, rejections

GAMMA = 0.5
AUTO = NystromMHSIC(n_landmarks="auto")


def gram(z, x):
    return np.exp(-GAMMA * cdist(z, x, "sqeuclidean"))


def normal(n, dims=(1, 1), seed=0):
    rng = np.random.default_rng([n, seed])
    return [rng.standard_normal((n, d)) for d in dims]


def run(data, estimator=AUTO, kernels=Gaussian(gamma=GAMMA), null=None, **options):  # noqa: B008
    null = null or dhsic.Multiplier(9)
    return dhsic.independence_test(
        *data, kernels=kernels, estimator=estimator, null=null, rng=4, threads=1, **options
    )


def grown(data, pairing, gamma=GAMMA, most=None, pilot=500, replace=False, tolerance=1e-8):
    n = len(data[0])
    p = most or landmark_count("8sqrt", n, replace=replace)
    rows = uniform_rows(4, n, p + pilot, len(data), pairing=pairing, replace=replace)
    z, x = (
        [values[one[at]] for values, one in zip(data, rows, strict=True)]
        for at in (slice(p), slice(p, None))
    )
    return grow([Gaussian(gamma=gamma)] * len(data), z, x, ALLOWED, tolerance), rows


@pytest.mark.parametrize("pairing", ["independent", "joint"])
@pytest.mark.parametrize("dims", [(2, 1), (1, 1, 1)])
def test_auto__takes_what_the_pilot_asks_for(dims, pairing):
    data = normal(900, dims)
    result = run(data, NystromMHSIC(n_landmarks="auto", pairing=pairing, tolerance=0.0))
    expected, rows = grown(data, pairing, tolerance=0.0)
    assert 32 < expected.count <= 240
    assert result.landmarks.drawn == expected.count
    points = [x[r[: expected.count]] for x, r in zip(data, rows, strict=True)]
    grams = [gram(z, z) for z in points]
    crosses = [gram(z, x) for z, x in zip(points, data, strict=True)]
    statistic = oracles.nystrom_statistic(np.prod(grams, axis=0), crosses)
    assert result.statistic == pytest.approx(statistic, rel=1e-3)
    assert f"{expected.missed:.2g} of the null's standard deviation" in result.landmarks.choice
    assert "500 other rows" in result.landmarks.choice


def test_auto__of_an_estimate_takes_joint_landmarks():
    data = normal(2000)
    estimate = dhsic.hsic(*data, kernels=Gaussian(gamma=GAMMA), estimator=AUTO, rng=4)
    assert estimate.landmarks.pairing == "joint"
    assert estimate.landmarks.drawn == grown(data, "joint")[0].count


def test_auto__draws_with_replacement():
    data = normal(600)
    result = run(data, NystromMHSIC(n_landmarks="auto", replace=True))
    assert result.landmarks.drawn == grown(data, "independent", replace=True)[0].count


def test_auto__of_several_kernels_takes_what_the_neediest_asks_for():
    data = normal(2000)
    kernels = dhsic.Grid(
        dhsic.Candidates([Gaussian(gamma=0.05), Gaussian(gamma=8.0)], factors=(1,)),
        combine="matched",
    )
    needs = [grown(data, "independent", gamma)[0].count for gamma in (0.05, 8.0)]
    assert needs[0] < needs[1] == run(data, kernels=kernels).landmarks.drawn


def test_auto__takes_no_more_than_it_says_and_says_what_they_miss():
    result = run(normal(1000, (10, 10)), kernels="gaussian")
    assert result.landmarks.drawn == 253
    assert "more than 0.02, but are as many as it takes (8sqrt)" in result.landmarks.choice


def test_auto__takes_most_where_few_rows_are_left_to_judge_by():
    result = run(normal(120))
    assert result.landmarks.drawn == 88
    assert result.landmarks.choice == (
        "auto takes 8sqrt where only 32 other rows are left to judge by"
    )


def test_auto__takes_most_where_the_pilot_is_all_alike():
    data = normal(3000)
    rows = uniform_rows(4, 3000, 438 + 500, 2, pairing="independent", replace=False)
    data[0][:] = 1.0
    data[0][rows[0][:40]] = 2.0
    result = run(data)
    assert result.landmarks.drawn == 438
    assert "the 500 rows to judge by are all alike" in result.landmarks.choice


def test_auto__is_said_and_read_back():
    result = run(normal(1000))
    assert f"{result.landmarks.choice}" in dict(result.summary())["landmarks"]
    again = dhsic.IndependenceTestResult.from_json(result.to_json())
    assert again.landmarks == result.landmarks


def test_given_number__has_no_choice_to_explain():
    assert run(normal(300), NystromMHSIC(n_landmarks=20)).landmarks.choice == ""


def test_auto__is_the_same_for_any_blocks_and_precision_follows():
    data = normal(2000)
    whole = run(data)
    again = run(data, memory="600MB")
    assert again.landmarks == whole.landmarks
    assert run(data, precision="float32").landmarks.tolerance == 1e-4


def test_auto__plans_for_the_most():
    plans = [
        dhsic.plan(*normal(4000), estimator=NystromMHSIC(n_landmarks=count), threads=1)
        for count in ("auto", "8sqrt")
    ]
    assert plans[0].n_landmarks == plans[1].n_landmarks == 506
    steps = {step.name: step for step in plans[0].steps}
    assert steps["grow landmarks"].working_bytes > 8 * 506**2
    assert "grow landmarks" not in {step.name for step in plans[1].steps}


@pytest.mark.parametrize("dims", [(1, 1), (2, 1, 1, 1)])
def test_auto__grows_in_the_memory_of_its_plan(dims):
    data = normal(6000, dims)
    plan = dhsic.plan(*data, estimator=AUTO, kernels="gaussian", threads=1)
    (step,) = (step for step in plan.steps if step.name == "grow landmarks")
    kernels = [Gaussian(gamma=0.5 / d) for d in dims]
    z, x = ([values[at] for values in data] for at in (slice(620), slice(620, 1120)))
    tracemalloc.start()
    grow(kernels, z, x, 0.0, 1e-8)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert plan.n_landmarks == 620
    assert 0.4 * step.working_bytes < peak <= step.working_bytes


@pytest.mark.parametrize("selection", ["rpcholesky", "coherence"])
def test_auto__refuses_selected_landmarks(selection):
    with pytest.raises(InvalidArgumentError, match=f"got selection='{selection}': give a number"):
        NystromMHSIC(n_landmarks="auto", selection=selection)


def test_auto__is_refused_where_features_share_landmarks():
    x, y = normal(200, (3, 1))
    with pytest.raises(InvalidArgumentError, match="take a number, or a multiple of sqrt"):
        dhsic.rank_features(x, y, estimator=AUTO, rng=0)


@pytest.mark.parametrize("estimator", [dhsic.NystromHSIC, dhsic.COCO])
def test_auto__is_refused_by_other_estimators(estimator):
    with pytest.raises(InvalidArgumentError, match="got 'auto'"):
        estimator(n_landmarks="auto")


def test_auto__gives_sensitivity_maps():
    data = linear(400, np.random.default_rng(0), 0.5)
    shown = dhsic.sensitivity_map(*data, estimator=AUTO, rng=0)
    assert np.isfinite(shown.maps[next(iter(shown.maps))]).all()


def test_level__is_kept_with_auto():
    options = {"estimator": AUTO, "null": dhsic.Permutation(39, within="all")}
    options["kernels"] = "gaussian"
    assert LEVEL.passes(rejections(lambda rng: gaussian(200, 2, rng), options, 0.1))


def test_power__is_there_with_auto():
    options = {"estimator": AUTO, "null": dhsic.Multiplier(99), "kernels": "gaussian"}
    assert found(lambda rng: linear(300, rng, 0.3), options, 0.05, 20)
