"""Maps against central differences of naive measures, and against the paper's equations."""

import numpy as np
import pytest

import dhsic
from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.io.open import open_variables
from dhsic.kernels import Gaussian, Laplacian
from tests import oracles as measures
from tests.kernels.cases import CASES
from tests.sensitivity import oracles

KERNELS = [case.kernel for case in CASES if case.kernel.differentiable]
EVERY_KERNEL = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.spec())
EVERY_OF = pytest.mark.parametrize("of", ["statistic", "estimate"])
EVERY_M = pytest.mark.parametrize("m", [2, 3])
DIMS = (2, 1, 2)
ROWS = 14
SEED = 3


def dependent(m, n=ROWS):
    rng = np.random.default_rng([m, n])
    data = [rng.standard_normal((n, d)) for d in DIMS[:m]]
    for x in data[1:]:
        x[:, 0] += data[0][:, 0]
    return data


def session(data):
    return Session(open_variables(data), Runtime.here(1, 2**31), SEED)


def assert_equals_differences(found, measure, data, rows, step=1e-5):
    """The map of every variable at some rows; relative to its largest entry."""
    for m, x in enumerate(data):
        entries = [(i, j) for i in rows for j in range(x.shape[1])]
        expected = []
        for entry in entries:
            values = []
            for sign in (1, -1):
                moved = [y.copy() for y in data]
                moved[m][entry] += sign * step
                values.append(measure(moved))
            expected.append((values[0] - values[1]) / (2 * step))
        actual = found.maps[f"x{m + 1}"].compute()
        largest = max(np.abs(actual).max(), np.abs(expected).max())
        np.testing.assert_allclose(
            [actual[entry] for entry in entries], expected, rtol=0, atol=1e-6 * largest
        )


@EVERY_OF
@EVERY_M
@EVERY_KERNEL
def test_nystrom__equals_differences_with_the_same_landmarks(kernel, m, of):
    data = dependent(m)
    estimator = dhsic.NystromMHSIC(n_landmarks=4)
    fits = {"statistic": estimator.fit_statistic, "estimate": estimator.fit_estimate}
    basis = fits[of](session(data), [kernel] * m).basis
    kernels, points = basis.combinations.kernels_of(0), basis.points(0)
    grams = [k(z) for k, z in zip(kernels, points, strict=True)]
    naive = getattr(oracles, f"nystrom_{of}")

    def measure(moved):
        return naive(grams, [k(z, x) for k, z, x in zip(kernels, points, moved, strict=True)])

    found = dhsic.sensitivity_map(
        *data, of=of, kernels=kernel, estimator=estimator, rng=SEED, threads=1
    )
    assert found.value == pytest.approx(measure(data), rel=1e-7)
    tied = {i for x, z in zip(data, points, strict=True) for i in range(ROWS) if x[i] in z}
    rows = [i for i in range(ROWS) if i not in tied][:4]
    smooth = "laplacian" not in kernel.spec() and "matern12" not in kernel.spec()
    if smooth and "distance" not in kernel.spec():
        rows += sorted(tied)[:2]
    assert len(rows) >= 2
    assert_equals_differences(found, measure, data, rows)


@EVERY_OF
@EVERY_M
@EVERY_KERNEL
def test_v_hsic__equals_differences(kernel, m, of):
    data = dependent(m)
    fitted = dhsic.VHSIC().fit(session(data), [kernel] * m).estimate.kernels

    def measure(moved):
        value = measures.v_hsic([k(x) for k, x in zip(fitted, moved, strict=True)])
        return value * (ROWS if of == "statistic" else 1)

    found = dhsic.sensitivity_map(
        *data, of=of, kernels=kernel, estimator="v-hsic", rng=SEED, threads=1
    )
    assert found.value == pytest.approx(measure(data), rel=1e-9)
    assert_equals_differences(found, measure, data, rows=range(0, ROWS, 4))


def frequencies_of(estimator, data, kernel):
    if len(data) == 2:
        maps = [side.map for side in estimator.fit(session(data), [kernel] * 2).basis.sides]
        return [one.frequencies for one in maps], [one.centre for one in maps]
    tiling = estimator.joint.fit(session(data), [kernel] * len(data)).tiling
    return list(tiling.columns), [wave.centre for wave in tiling.kernels]


@EVERY_OF
@EVERY_M
@pytest.mark.parametrize("form", ["cos-sin", "complex"])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian() * Gaussian()])
def test_rff__equals_differences_with_the_same_frequencies(kernel, form, m, of):
    data = dependent(m)
    estimator = dhsic.RFFHSIC(n_features=9, form=form)
    frequencies, centres = frequencies_of(estimator, data, kernel)

    def measure(moved):
        value = oracles.random_features(moved, frequencies, centres, form)
        return value * (ROWS if of == "statistic" else 1)

    found = dhsic.sensitivity_map(
        *data, of=of, kernels=kernel, estimator=estimator, rng=SEED, threads=1
    )
    assert found.value == pytest.approx(measure(data), rel=1e-9)
    # frequencies may be as high as 1e3
    assert_equals_differences(found, measure, data, range(0, ROWS, 3), step=1e-6)


def test_v_hsic__is_the_paper_s_equations_8_and_9():
    x, y = dependent(2)
    gamma = (0.4, 0.9)
    grams = [measures.gaussian_gram(v, v, g) for v, g in zip((x, y), gamma, strict=True)]
    found = dhsic.sensitivity_map(
        x, y, of="estimate", kernels=[Gaussian(gamma=g) for g in gamma], estimator="v-hsic", rng=0
    )
    expected = [
        oracles.paper_equation_8(x, *grams, gamma[0]),
        oracles.paper_equation_8(y, *grams[::-1], gamma[1]),
    ]
    for one, other in zip(found.maps.values(), expected, strict=True):
        np.testing.assert_allclose(one.compute(), other, rtol=1e-10, atol=1e-15)


def test_rff__in_the_complex_form_is_the_paper_s_equations_10_and_11():
    x, y = dependent(2)
    estimator = dhsic.RFFHSIC(n_features=9, form="complex")
    frequencies, centres = frequencies_of(estimator, [x, y], Gaussian())
    found = dhsic.sensitivity_map(x, y, of="estimate", estimator=estimator, rng=SEED)
    expected = [
        oracles.paper_equation_10(x, y, frequencies, centres),
        oracles.paper_equation_10(y, x, frequencies[::-1], centres[::-1]),
    ]
    for one, other in zip(found.maps.values(), expected, strict=True):
        np.testing.assert_allclose(one.compute(), other, rtol=1e-10, atol=1e-15)
