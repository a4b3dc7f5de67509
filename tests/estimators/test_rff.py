"""HSIC by random Fourier features against its definitions."""

import os
from pathlib import Path

import numpy as np
import pytest

import dhsic
from dhsic._random import generator, random_signs
from dhsic.errors import InvalidArgumentError
from dhsic.estimators.feature.rff import RFFHSIC
from dhsic.kernels import Combinations, Gaussian, Laplacian, Linear
from dhsic.nulls import Gamma, Multiplier, Permutation, Spectral, pvalue
from dhsic.results import FeatureSummary
from tests import oracles
from tests.estimators.features import (
    centred,
    dependent,
    frobenius,
    orders_of_permutations,
    permuted_statistics,
    session_on,
    signed_statistics,
    squared_norm,
)

GAMMA = 0.3
KERNELS = (Gaussian(gamma=GAMMA), Gaussian(gamma=GAMMA))
FORMS = pytest.mark.parametrize("form", ["cos-sin", "complex"])

DATA = Path(os.environ.get("DHSIC_DATA", Path(__file__).parents[3] / "shared/data"))


def features_of(data, form="cos-sin", seed=5, d=8):
    """From the same frequencies; the features of `complex` are exp(i w'x)."""
    features = []
    for m, x in enumerate(data):
        rng = generator(seed, "features", m)
        w = np.sqrt(2 * GAMMA) * rng.standard_normal((d, x.shape[1]))
        if form == "complex":
            features.append(np.exp(1j * x @ w.T) / np.sqrt(d))
        else:
            features.append(np.hstack([np.cos(x @ w.T), np.sin(x @ w.T)]) / np.sqrt(d))
    return features


def outcome(data, null, form="cos-sin", precision="float64", **options):
    session = session_on(data, precision=precision)
    return RFFHSIC(n_features=8, form=form, **options).test(session, KERNELS, null)


@FORMS
@pytest.mark.parametrize(("precision", "rel"), [("float64", 1e-10), ("float32", 1e-4)])
def test_statistic_and_estimate__equal_their_definition(form, precision, rel):
    data = dependent(80)
    expected = squared_norm(*features_of(data, form))
    found = outcome(data, Multiplier(3), form, precision)
    assert found.statistic == pytest.approx(80 * expected, rel=rel)
    assert found.estimate.value == pytest.approx(expected, rel=rel)
    assert found.estimate.features == FeatureSummary(form, (16, 16), False)
    session = session_on(data, precision=precision)
    alone = RFFHSIC(n_features=8, form=form).estimate(session, KERNELS)
    assert alone.value == pytest.approx(expected, rel=rel)
    assert len(session.finished) == 1


@FORMS
def test_multiplier__equals_its_definition(form):
    data = dependent(60)
    signs = random_signs(5, 0, 60, 7).astype(float)
    expected = signed_statistics(*features_of(data, form), signs, frobenius)
    found = outcome(data, Multiplier(7), form).distribution.values
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@FORMS
@pytest.mark.parametrize("within", ["all", "groups"])
def test_permutation__equals_its_definition(form, within):
    data = dependent(60)
    null = Permutation(6, within=within, group_rows=25)
    orders = orders_of_permutations(60, null)
    expected = permuted_statistics(*features_of(data, form), orders, frobenius)
    found = outcome(data, null, form).distribution.values
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_laws__are_those_of_the_features():
    data = dependent(200)
    features = [centred(x) for x in features_of(data)]
    spectra = [np.linalg.eigvalsh(x.T @ x / 200) for x in features]
    expected = np.sort(np.outer(*spectra).ravel())
    spectral = outcome(data, Spectral()).distribution
    np.testing.assert_allclose(np.sort(spectral.weights)[-100:], expected[-100:], rtol=1e-9)
    gamma = outcome(data, Gamma()).distribution
    assert gamma.mean == pytest.approx(200 / 199 * expected.sum(), rel=1e-10)
    values = outcome(data, Permutation(4000, within="all")).distribution.values
    assert gamma.variance == pytest.approx(values.var(), rel=0.1)


@pytest.mark.parametrize("null", [Gamma(), Spectral()])
def test_complex_form__refuses_laws_of_real_features(null):
    data = dependent(60)
    match = (
        rf"null must be 'shifts', 'permutation' or 'multiplier' with .*got '{null.name}': take one"
    )
    with pytest.raises(InvalidArgumentError, match=match):
        outcome(data, null, "complex")
    with pytest.raises(InvalidArgumentError, match=match):
        RFFHSIC(form="complex").plan(session_on(data), Combinations.single(KERNELS), null)


@FORMS
@pytest.mark.parametrize("orthogonal", [False, True])
def test_estimate__nears_v_hsic_with_the_root_of_the_features(form, orthogonal):
    x, y = dependent(200, (3, 3))
    exact = oracles.v_hsic([oracles.gaussian_gram(v, v, GAMMA) for v in (x, y)])
    counts = np.array([20, 80, 320])
    errors = []
    for count in counts:
        made = RFFHSIC(n_features=int(count), form=form, orthogonal=orthogonal)
        found = [made.estimate(session_on((x, y), seed), KERNELS).value for seed in range(30)]
        errors.append(np.sqrt(np.mean((np.array(found) - exact) ** 2)))
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert -0.7 < slope < -0.3


def test_orthogonal__is_nearer_to_v_hsic():
    x, y = dependent(200, (8, 8))
    exact = oracles.v_hsic([oracles.gaussian_gram(v, v, 0.05) for v in (x, y)])
    errors = {}
    for orthogonal in (False, True):
        made = RFFHSIC(n_features=32, orthogonal=orthogonal)
        kernels = (Gaussian(gamma=0.05),) * 2
        found = [made.estimate(session_on((x, y), seed), kernels).value for seed in range(40)]
        errors[orthogonal] = np.mean((np.array(found) - exact) ** 2)
    assert errors[True] < 0.7 * errors[False]


@pytest.mark.parametrize("null", [Permutation(99), Multiplier(99), Gamma(), Spectral()])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_test__finds_dependence_and_nothing_in_noise(null, precision):
    rng = np.random.default_rng(1)
    x, noise = rng.standard_normal((2, 500, 2))
    y = x**2 + 0.5 * noise
    for other, found in ((y, True), (noise, False)):
        session = session_on((x, other), precision=precision)
        result = RFFHSIC().test(session, (Gaussian(), Laplacian()), null)
        p = pvalue(result.statistic, result.distribution, precision, result.rounding)
        assert (p < 0.02) if found else (p > 0.05)


def test_units__change_nothing():
    x, y = dependent(300)
    plain = RFFHSIC().estimate(session_on((x, y)), (Gaussian(), Gaussian()))
    moved = RFFHSIC().estimate(session_on((1e6 * x - 3e7, 1e-4 * y + 2)), (Gaussian(), Gaussian()))
    assert moved.value == pytest.approx(plain.value, rel=1e-6)


def test_kernel__must_have_a_spectral_law():
    assert RFFHSIC().kernel(None) == Gaussian()
    with pytest.raises(InvalidArgumentError, match=r"got 'linear': take estimator='nystrom-m'"):
        RFFHSIC().estimate(session_on(dependent(60)), (Gaussian(), Linear()))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_features": 0}, "n_features must be an integer >= 1, got 0"),
        ({"form": "cosine"}, "form must be one of 'cos-sin', 'complex', got 'cosine'"),
    ],
)
def test_options__are_checked(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        RFFHSIC(**options)


@pytest.mark.parametrize("null", [None, Gamma(), Multiplier(9), Permutation(9, within="groups")])
def test_plan__names_the_passes_that_run(null):
    session = session_on(dependent(500))
    plan = RFFHSIC().plan(session, Combinations.single(KERNELS), null)
    if null is None:
        RFFHSIC().estimate(session, KERNELS)
    else:
        RFFHSIC().test(session, KERNELS, null)
    assert [step.name for step in plan.passes] == [done.name for done in session.finished]


def test_plan__grows_with_features():
    session = session_on(dependent(5000))
    peaks = [
        RFFHSIC(n_features=d)
        .plan(session, Combinations.single(KERNELS), Multiplier(100))
        .peak_worker_bytes
        for d in (50, 100)
    ]
    assert peaks[1] - peaks[0] > 100 * 8 * (200**2 - 100**2)


def test_workers__give_the_same_as_threads(client):
    data = dependent(3000)
    here = outcome(data, Multiplier(9))
    session = session_on(data, client=client)
    there = RFFHSIC(n_features=8).test(session, KERNELS, Multiplier(9))
    np.testing.assert_allclose(there.distribution.values, here.distribution.values, rtol=1e-9)


def test_features__agree_with_those_of_scikit_learn():
    approximation = pytest.importorskip("sklearn.kernel_approximation")
    data = dependent(80)
    features = []
    for m, x in enumerate(data):
        sampler = approximation.RBFSampler(gamma=GAMMA, n_components=8).fit(x)
        rng = generator(5, "features", m)
        sampler.random_weights_ = (np.sqrt(2 * GAMMA) * rng.standard_normal((8, x.shape[1]))).T
        parts = []
        for offset in (0.0, -np.pi / 2):
            sampler.random_offset_ = np.full(8, offset)
            parts.append(sampler.transform(x) / np.sqrt(2))
        features.append(np.hstack(parts))
    expected = squared_norm(*features)
    found = RFFHSIC(n_features=8).estimate(session_on(data), KERNELS).value
    assert found == pytest.approx(expected, rel=1e-9)


def test_rff_hsic__finds_what_no_single_column_shows():
    """Zhang et al. (2018), section 5.3, one draw."""
    path = DATA / "reference" / "kerpy_example.npz"
    if not path.exists():
        pytest.skip(f"needs {path} (set DHSIC_DATA)")
    stored = np.load(path)
    options = {"null": "spectral", "rng": 0}
    x, y = stored["x"], stored["y"]
    assert dhsic.independence_test(x, y, estimator="rff-hsic", **options).pvalue < 0.01
    assert dhsic.independence_test(x, y, estimator="sub-corr", **options).pvalue > 0.01
