"""Maps against central differences of the public measures, and against the paper's equations."""

import numpy as np
import pytest

import dhsic
from dhsic import kernels as k
from tests import oracles
from tests import oracles as measures

ROWS, LANDMARKS, SEED = 24, 4, 3
DIMS = (2, 1, 2)


def named(make):
    return pytest.param(make, id=make(1).spec())


# Parameters and origins are fixed: differences of the measure would move those that are fitted.
KERNELS = [
    lambda _: k.Gaussian(gamma=0.4),
    lambda _: k.Laplacian(gamma=0.3),
    lambda _: k.Matern(nu=0.5, length=2.0),
    lambda _: k.Matern(nu=1.5, length=2.0),
    lambda _: k.Matern(nu=2.5, length=2.0),
    lambda _: k.InverseMultiquadric(gamma=0.4),
    lambda _: k.RationalQuadratic(alpha=0.3, gamma=0.4),
    lambda d: k.Linear(origin=(0.1,) * d),
    lambda d: k.Polynomial(degree=3, coef0=1.0, gamma=0.3, origin=(0.1,) * d),
    lambda d: k.Distance(exponent=1.0, origin=(0.1,) * d),
    lambda d: k.Distance(exponent=0.7, origin=(0.1,) * d),
    lambda d: k.Distance(exponent=2.0, origin=(0.1,) * d),
    lambda _: k.Columns(k.Laplacian(gamma=0.3)),
    lambda d: k.Gaussian(gamma=0.4) + k.Linear(origin=(0.1,) * d),
    lambda _: k.Laplacian(gamma=0.3) * k.Matern(nu=2.5, length=2.0),
]
EVERY_KERNEL = pytest.mark.parametrize("kernel", [named(make) for make in KERNELS])
EVERY_MEASURE = pytest.mark.parametrize(("m", "of"), [(2, "statistic"), (3, "estimate")])


def dependent(m):
    rng = np.random.default_rng([m, ROWS])
    data = [rng.standard_normal((ROWS, d)) for d in DIMS[:m]]
    for x in data[1:]:
        x[:, 0] += data[0][:, 0]
    return data


def measure(data, of, options):
    if of == "estimate":
        return dhsic.hsic(*data, **options).estimate
    tested = dhsic.independence_test(*data, null="permutation", n_resamples=1, **options)
    return tested.statistic


def rows_that_differ(estimator, kernel, m, of, rows, step=1e-5):
    """How many of some rows of every variable have no central difference of the measure as a map.

    Differences keep the seed, and so the draws; those of a row that is a landmark move it.
    """
    data = dependent(m)
    own = [kernel(d) for d in DIMS[:m]]
    options = {"kernels": own, "estimator": estimator, "rng": SEED, "threads": 1}
    found = dhsic.sensitivity_map(*data, of=of, **options)
    assert found.value == pytest.approx(measure(data, of, options), rel=1e-12)
    maps = [one.compute() for one in found.maps.values()]
    largest = max(np.abs(one).max() for one in maps)
    differing = [set() for _ in data]
    for v, x in enumerate(data):
        for i, j in [(i, j) for i in rows for j in range(x.shape[1])]:
            values = []
            for sign in (1.0, -1.0):
                moved = [one.copy() for one in data]
                moved[v][i, j] += sign * step
                values.append(measure(moved, of, options))
            if abs((values[0] - values[1]) / (2.0 * step) - maps[v][i, j]) > 1e-6 * largest:
                differing[v].add(i)
    return [len(one) for one in differing]


@EVERY_MEASURE
@EVERY_KERNEL
def test_v_hsic__equals_differences(kernel, m, of):
    assert rows_that_differ(dhsic.VHSIC(), kernel, m, of, range(0, ROWS, 5)) == [0] * m


@EVERY_MEASURE
@EVERY_KERNEL
def test_nystrom__equals_differences_but_for_the_rows_that_are_landmarks(kernel, m, of):
    estimator = dhsic.NystromMHSIC(n_landmarks=LANDMARKS)
    differing = rows_that_differ(estimator, kernel, m, of, range(0, ROWS, 3))
    assert max(differing) <= LANDMARKS


@pytest.mark.parametrize(("m", "of"), [(2, "estimate"), (3, "statistic")])
def test_nystrom__equals_differences_of_the_other_measure_too(m, of):
    estimator = dhsic.NystromMHSIC(n_landmarks=LANDMARKS)
    differing = rows_that_differ(estimator, KERNELS[0], m, of, range(ROWS))
    assert differing == [LANDMARKS] * m


@pytest.mark.parametrize("of", ["statistic", "estimate"])
@pytest.mark.parametrize("form", ["cos-sin", "complex"])
@pytest.mark.parametrize("kernel", [named(KERNELS[0]), named(KERNELS[-1])])
def test_rff__equals_differences(kernel, form, of):
    estimator = dhsic.RFFHSIC(n_features=9, form=form)
    # Frequencies may be as high as 1e3.
    rows = range(0, ROWS, 5)
    assert rows_that_differ(estimator, kernel, 2, of, rows, step=1e-6) == [0] * 2


def test_v_hsic__is_the_paper_s_equations_8_and_9():
    x, y = dependent(2)
    gamma = (0.4, 0.9)
    grams = [measures.gaussian_gram(v, v, g) for v, g in zip((x, y), gamma, strict=True)]
    kernels = [k.Gaussian(gamma=g) for g in gamma]
    found = dhsic.sensitivity_map(x, y, of="estimate", kernels=kernels, estimator="v-hsic", rng=0)
    expected = [
        oracles.paper_equation_8(x, *grams, gamma[0]),
        oracles.paper_equation_8(y, *grams[::-1], gamma[1]),
    ]
    for one, other in zip(found.maps.values(), expected, strict=True):
        np.testing.assert_allclose(one.compute(), other, rtol=1e-10, atol=1e-15)
