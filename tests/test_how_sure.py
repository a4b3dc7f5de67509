"""Minimum effects and differences of dependences, by the errors of the jackknife."""

import numpy as np
import pytest
from scipy import stats

import dhsic
from tests.statistics.test_jackknife import KERNELS, normal, truth


def linear(slope, n, seed):
    x, noise = np.random.default_rng(seed).standard_normal((2, n))
    return x, slope * x + noise


@pytest.mark.parametrize("estimator", ["cka", "dcor"])
def test_minimum__is_tested_on_the_scale_of_intervals(estimator):
    x, y = linear(0.5, 300, 0)
    options = {"estimator": estimator, "confidence": 0.9, "rng": 0}
    found = dhsic.hsic(x, y, minimum=0.05, **options)
    told, interval = found.minimum, found.interval
    assert (told.estimate, told.error) == (interval.centre, interval.error)
    # The ends of the interval have half of one less the level on either side.
    for end, p in ((interval.low, 0.05), (interval.high, 0.95)):
        at_end = dhsic.hsic(x, y, minimum=end, **options).minimum
        assert at_end.pvalue == pytest.approx(p)
        assert at_end.equivalence_pvalue == pytest.approx(1.0 - p)
    # The least minimum that is not rejected has the level as its p-value.
    again = dhsic.hsic(x, y, minimum=told.least, **options).minimum
    assert again.pvalue == pytest.approx(0.1)


def test_minimum__of_squared_hsic_is_one_of_cka():
    x, y = linear(0.5, 300, 0)
    told = dhsic.independence_test(x, y, minimum=0.02, rng=0).minimum
    assert told.quantity == "CKA"
    assert told.told == "dependent, and by at least 0.02"
    assert dhsic.hsic(x, y, minimum=0.9, rng=0).minimum.told == (
        "dependent by less than 0.9, if at all"
    )
    between = dhsic.hsic(x, y, minimum=told.estimate, rng=0).minimum
    assert between.told.startswith("not known whether dependent by 0.")


def rejections(estimator, rho, sets, n):
    """Rejections of at most and of at least the measure of the population, at 5 %."""
    options = {} if estimator == "dcor" else {"kernels": KERNELS}
    told = [
        dhsic.hsic(
            *normal(rho, n, i), estimator=estimator, minimum=truth(estimator, rho), rng=i, **options
        ).minimum
        for i in range(sets)
    ]
    kinds = "pvalue", "equivalence_pvalue"
    return [sum(getattr(one, kind) <= 0.05 for one in told) for kind in kinds]


@pytest.mark.parametrize("rho", [0.15, 0.4])
def test_minimum__on_its_boundary_keeps_the_level(rho):
    assert max(rejections("dcor", rho, 50, 200)) <= stats.binom.ppf(0.999, 50, 0.06)


@pytest.mark.nightly
@pytest.mark.parametrize("rho", [0.05, 0.1, 0.2, 0.45])
@pytest.mark.parametrize("estimator", ["cka", "dcor"])
def test_minimum__on_its_boundary_keeps_the_level_of_many_data_sets(estimator, rho):
    # Of 252 levels, each of 1,000 data sets, the largest was 6.9 %.
    assert max(rejections(estimator, rho, 400, 500)) <= stats.binom.ppf(0.999, 400, 0.06)


def test_difference__is_that_of_the_measures_with_their_common_error():
    a, b, noise = np.random.default_rng(0).standard_normal((3, 400))
    y = a + 0.8 * b + noise
    found = dhsic.dependence_difference(a, b, y, estimator="dcor", rng=0)
    each = [dhsic.hsic(x, y, estimator="dcor", confidence=0.95, rng=0) for x in (a, b)]
    assert found.estimates == pytest.approx([one.interval.centre for one in each])
    assert [one.error for one in found.intervals] == pytest.approx(
        [one.interval.error for one in each]
    )
    assert found.difference == pytest.approx(found.estimates[0] - found.estimates[1])
    t = abs(found.interval.centre) / found.interval.error
    assert found.pvalue == pytest.approx(2.0 * stats.t.sf(t, 49))
    half = stats.t.ppf(0.975, 49) * found.interval.error
    assert found.interval.high == pytest.approx(found.interval.centre + half)
    wider = dhsic.dependence_difference(a, b, y, estimator="dcor", confidence=0.99, rng=0)
    assert wider.interval.low < found.interval.low


@pytest.mark.usefixtures("no_libraries")
def test_difference__takes_one_estimator_for_both_variables():
    """All pairs of rows of one column fit a memory, and those of 600 do not."""
    wide = np.random.default_rng(0).standard_normal((500, 600))
    x, y = np.random.default_rng(1).standard_normal((2, 500))
    for x1, x2, memory, pairs in (
        (x, x, "14MiB", True),
        (wide, x, "64MiB", True),
        (wide, x, "14MiB", False),
        (x, wide, "14MiB", False),
    ):
        plan = dhsic.plan_difference(x1, x2, y, memory=memory, threads=1)
        names = {step.name for step in plan.steps}
        assert ("Gram sums" in names, "fetch landmarks" in names) == (pairs, not pairs)
    found = dhsic.dependence_difference(x, wide, y, rng=0)
    each = [dhsic.hsic(one, y, estimator="u-cka", confidence=0.95, rng=0) for one in (x, wide)]
    assert found.estimator == "u-cka"
    assert found.estimates == pytest.approx([one.interval.centre for one in each])


def test_interval__near_independence_is_no_wider_than_the_measure_can_be():
    for seed in range(20):
        x, y = np.random.default_rng(seed).standard_normal((2, 60))
        found = dhsic.hsic(x, y, estimator="sub-corr", confidence=0.95, rng=0)
        assert found.interval.high < 0.5


@pytest.mark.parametrize("estimator", ["u-hsic", "v-hsic", "cka"])
def test_interval__of_any_units_is_as_wide_or_refused(estimator):
    x, noise = np.random.default_rng(0).standard_normal((2, 300))
    options = {"kernels": "linear", "estimator": estimator, "confidence": 0.9, "rng": 0}
    usual = dhsic.hsic(x, x + noise, **options)
    for unit in (1e-25, 1e25):
        found = dhsic.hsic(unit * x, unit * (x + noise), **options)
        ends = [found.interval.low / found.estimate, found.interval.high / found.estimate]
        expected = [usual.interval.low / usual.estimate, usual.interval.high / usual.estimate]
        assert ends == pytest.approx(expected)
    if estimator != "cka":
        with pytest.raises(dhsic.errors.DataError, match="whose square is a number"):
            dhsic.hsic(1e-43 * x, 1e-43 * (x + noise), **options)


@pytest.mark.parametrize("estimator", ["v-hsic", "dcor", "nystrom-hsic", "cka"])
def test_interval__of_sorted_rows_is_as_wide(estimator):
    kernels = None if estimator == "dcor" else "gaussian:0.5"
    options = {"kernels": kernels, "estimator": estimator, "confidence": 0.95}
    errors = []
    for seed in range(6):
        x, noise = np.random.default_rng(seed).standard_normal((2, 600))
        order, y = np.argsort(x), 0.5 * x + 0.3 * noise
        pairs = (x, y), (x[order], y[order])
        found = [dhsic.hsic(*pair, rng=seed, **options) for pair in pairs]
        errors.append([one.interval.error for one in found])
    drawn, ordered = np.mean(errors, axis=0)
    assert ordered == pytest.approx(drawn, rel=0.2)


def test_difference__tells_measures_within_their_intervals():
    # V-statistics of independent variables of many columns lie above intervals less their bias.
    a, b, noise = np.random.default_rng(0).standard_normal((3, 60, 10))
    found = dhsic.dependence_difference(a, b, a + noise, estimator="dcor", rng=0)
    alone = dhsic.hsic(b, a + noise, estimator="dcor", confidence=0.95, rng=0)
    assert alone.estimate > alone.interval.high
    frame = found.to_frame()
    assert (frame["estimate"] <= frame["conf_high"]).all()
    np.testing.assert_array_equal(frame["estimate"], frame["conf_centre"])
    for (_, text), interval in zip(found.summary()[2:4], found.intervals, strict=True):
        assert text == interval.told
    assert [bar.get_width() for bar in found.plot().patches] == frame["estimate"].tolist()
    assert type(found).from_json(found.to_json()) == found


def test_interval__tells_its_centre_beside_an_estimate_outside_of_it():
    x, y = np.random.default_rng(0).standard_normal((2, 60, 10))
    for call in (dhsic.hsic, dhsic.independence_test):
        found = call(x, y, kernels="gaussian", estimator="v-hsic", confidence=0.95, rng=0)
        assert found.estimate > found.interval.high
        centre = found.interval.centre
        assert f"about {centre:.4g}, corrected for bias (95 %)" in dict(found.summary())["interval"]
        assert found.to_frame()["conf_centre"].tolist() == [centre]
        lead = found.findings(0.05, "bh").lead
        assert call is not dhsic.hsic or found.interval.told in lead


def test_difference__of_equal_dependences_keeps_the_level_and_of_others_is_found():
    def pvalue(seed, second):
        a, b, noise = np.random.default_rng(seed).standard_normal((3, 150))
        y = a + second * b + noise
        return dhsic.dependence_difference(a, b, y, estimator="dcor", rng=seed).pvalue

    count = sum(pvalue(seed, 1.0) <= 0.05 for seed in range(60))
    assert count <= stats.binom.ppf(0.999, 60, 0.06)
    assert sum(pvalue(seed, 0.3) <= 0.05 for seed in range(20)) >= 18


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, y: dhsic.hsic(x, y, minimum=1.5), "minimum must be greater than 0 and less"),
        (lambda x, y: dhsic.hsic(x, y, x, minimum=0.1), "a minimum is of two variables, got 3"),
        (lambda x, y: dhsic.independence_test(x, y, minimum=0.1, order="time"), "got order beside"),
        (lambda x, y: dhsic.dependence_difference(x, y), "takes three variables, x1, x2 and y"),
        (
            lambda x, y: dhsic.dependence_difference(x, y, y, estimator="block-hsic"),
            "'block-hsic' has none",
        ),
        (lambda x, y: dhsic.dependence_difference(x[:9], y[:9], y[:9]), "at least 40 rows, got 9"),
    ],
)
def test_mistakes__are_refused(call, words):
    with pytest.raises((dhsic.errors.InvalidArgumentError, dhsic.errors.DataError), match=words):
        call(*linear(0.5, 100, 0))
