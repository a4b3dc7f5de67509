"""Replicates of every family keep to strata, groups and series."""

import numpy as np
import pytest

import dhsic
from dhsic._arguments import open_session
from dhsic._rows import RowLabels
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import TABLE
from dhsic.estimators.gram import held_shifts
from dhsic.estimators.resample import orbit_of
from dhsic.io import held
from tests import oracles

N = 96
STRATA = np.random.default_rng(0).integers(4, size=N)
GROUPS = np.random.default_rng(1).permutation(np.repeat(np.arange(24), 4))
UNEQUAL = np.repeat(np.arange(32), [1, 2, 4, 5] * 8)
WAYS = {
    "strata": {"strata": STRATA},
    "groups": {"groups": GROUPS},
    "unequal groups": {"groups": UNEQUAL},
    "groups in strata": {"groups": GROUPS, "strata": GROUPS % 3},
    "time": {"order": dhsic.TimeOrder(lag=4)},
    "panel": {"order": dhsic.TimeOrder(lag=1), "groups": np.arange(N) % 2},
}
FAMILIES = [entry.estimator.name for entry in TABLE if entry.moves_sets]
NULLS = {"shifts": dhsic.Shifts(200), "permutation": dhsic.Permutation(100)}
KERNELS = ("gaussian:0.5", "laplacian:0.7")


PERMUTED = [name for name, asked in WAYS.items() if "order" not in asked]


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


def data(seed=0):
    return np.random.default_rng(seed).standard_normal((2, N))


def session_of(way, variables, rng=3):
    rows = RowLabels(**WAYS[way])
    return open_session(variables, None, rng, "float64", None, 1, "2GiB", None, rows=rows)


def replicates_of(way, null, variables, **options):
    result = dhsic.independence_test(*variables, null=null, rng=3, **WAYS[way], **options)
    return np.append(result.statistic, result.null_distribution), result


def brute_force(orders, grams, statistic):
    first, second = grams
    return [statistic([first, second[np.ix_(order, order)]]) for order in orders]


def v_statistic(grams):
    return len(grams[0]) * oracles.v_hsic(grams)


def u_statistic(grams):
    first, second = map(oracles.u_centred, grams)
    return float(np.sum(first * second)) / (len(first) - 3)


def within(way, x):
    """About the mean of every stratum, in its standard deviations."""
    found, strata = x.copy(), WAYS[way].get("strata", None)
    for label in np.unique(strata) if strata is not None else []:
        own = strata == label
        found[own] = (x[own] - x[own].mean()) / x[own].std()
    return found


def grams_of(result, variables, way):
    kernels = [dhsic.kernels.parse(one.kernel) for one in result.variables]
    pairs = zip(kernels, variables, strict=True)
    return [kernel(within(way, x)[:, None]) for kernel, x in pairs]


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize(
    ("estimator", "statistic"), [("v-hsic", v_statistic), ("u-hsic", u_statistic)]
)
def test_shifts__are_those_of_the_definition(way, estimator, statistic, holds, monkeypatch):
    if not holds:
        monkeypatch.setattr(held_shifts, "_HELD_OF_SETS", 0)
    x = data()
    null = NULLS["shifts"]
    values, result = replicates_of(way, null, x, estimator=estimator, kernels=KERNELS)
    orders = oracles.orders_of_orbit(orbit_of(session_of(way, x), null))
    expected = brute_force(orders, grams_of(result, x, way), statistic)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12 * max(expected))
    assert len({order.tobytes() for order in orders}) > 20


@pytest.mark.parametrize("way", PERMUTED)
@pytest.mark.parametrize("within", ["all", "groups"])
@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-hsic"])
def test_permutations__are_those_of_the_definition(way, estimator, within):
    x = data()
    null = dhsic.Permutation(50, within=within, group_rows=40)
    options = {"n_landmarks": N, "tolerance": 1e-12} if estimator == "nystrom-hsic" else {}
    chosen = dhsic.NystromHSIC(**options) if options else dhsic.VHSIC()
    values, result = replicates_of(way, null, x, estimator=chosen, kernels=KERNELS)
    orders = oracles.orders_of_orbit(orbit_of(session_of(way, x), null), shifted=False)
    expected = brute_force(orders, grams_of(result, x, way), v_statistic)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6 * max(expected))


def test_features__have_the_shifts_of_the_definition(way):
    x = data()
    null = NULLS["shifts"]
    estimator = dhsic.NystromHSIC(n_landmarks=N, tolerance=1e-12)
    values, result = replicates_of(way, null, x, estimator=estimator, kernels=KERNELS)
    orders = oracles.orders_of_orbit(orbit_of(session_of(way, x), null))
    expected = brute_force(orders, grams_of(result, x, way), v_statistic)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6 * max(expected))


def unmoved(way):
    """A variable that the moves of a way leave as it is, and others do not."""
    rng = np.random.default_rng(5)
    labels = WAYS[way].get("groups")
    if way == "strata":
        return rng.standard_normal(4)[STRATA]
    if way == "time":
        return np.resize(rng.standard_normal(4), N)
    if way == "panel":
        return labels + 0.0
    place = np.array([np.count_nonzero(labels[:i] == labels[i]) for i in range(N)])
    size = np.bincount(labels)[labels]
    stratum = WAYS[way].get("strata", np.zeros(N, int))
    return rng.standard_normal((6, 6, 3))[size, place, stratum]


@pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")  # of rows as they are
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("way", "null"),
    [*((way, "shifts") for way in WAYS), *((way, "permutation") for way in PERMUTED)],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_families__leave_what_moves_leave(way, family, null, monkeypatch):
    monkeypatch.setattr(held, "within_strata", lambda values, strata: values)
    y = unmoved(way)
    x = y + 0.1 * data()[0]
    options = {"estimator": family, "kernels": None if family == "sub-corr" else "gaussian"}
    if family in ("dcov", "dcor"):
        options["kernels"] = None
    result = dhsic.independence_test(x, y, null=NULLS[null], rng=0, **WAYS[way], **options)
    assert result.pvalue == 1.0
    assert dhsic.independence_test(x, y, null=NULLS[null], rng=0, **options).pvalue < 0.02


@pytest.mark.filterwarnings("ignore::dhsic.errors.DependentRowsWarning")
@pytest.mark.parametrize(
    ("way", "estimator"),
    [*((way, "nystrom-m") for way in WAYS), ("groups", "v-hsic"), ("time", "v-hsic")],
)
def test_chains__leave_what_moves_leave(way, estimator, monkeypatch):
    monkeypatch.setattr(held, "within_strata", lambda values, strata: values)
    y = unmoved(way)
    x, z = y + 0.1 * data()[0], y + 0.1 * data()[1]
    options = {"estimator": estimator, "kernels": "gaussian", "rng": 0}
    assert dhsic.independence_test(x, z, y, **options).pvalue < 0.05
    result = dhsic.independence_test(x, z, y, **options, **WAYS[way])
    assert result.null == "chain"
    assert result.stages[-1].pvalue == 1.0  # y stays; x and z may depend


@pytest.mark.parametrize("null", ["gamma", "spectral", "multiplier", "sequential"])
def test_nulls__that_would_forget_are_refused(way, null):
    with pytest.raises(
        InvalidArgumentError, match=rf"null '{null}' cannot keep to .* take 'auto', 's"
    ):
        dhsic.independence_test(*data(), estimator="v-hsic", null=null, **WAYS[way])


@pytest.mark.parametrize("estimator", ["nfsic", "block-hsic"])
def test_estimators__that_would_forget_are_refused(way, estimator):
    with pytest.raises(InvalidArgumentError, match=r"keep to strata.* take 'auto' or one of"):
        dhsic.independence_test(*data(), estimator=estimator, **WAYS[way])


def test_permutations_of_series__are_refused():
    with pytest.raises(InvalidArgumentError, match="'permutation' cannot keep to a series in time"):
        dhsic.independence_test(*data(), null="permutation", order="time")


def test_shifts_of_several_series__are_refused():
    x = np.random.default_rng(0).standard_normal((3, N))
    with pytest.raises(InvalidArgumentError, match="take 'auto', 'chain'"):
        dhsic.independence_test(*x, null="shifts", order="time")
