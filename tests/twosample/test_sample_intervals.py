"""Intervals of discrepancies are those of samples with blocks of pooled rows deleted by hand."""

import numpy as np
import pytest

import dhsic
from dhsic.engine.passes import block_numbers
from dhsic.errors import DataError, InvalidArgumentError
from tests import oracles
from tests.estimators.cases import gaussian
from tests.twosample.test_two_sample import compare, pool_of


@pytest.fixture
def samples(rng):
    return [rng.standard_normal((61, 1)), rng.standard_normal((25, 1)) + 1.0]


def test_interval__is_that_of_blocks_deleted_by_hand(samples):
    found = compare(*samples, estimator="v-mmd", kernels="gaussian:0.3", confidence=0.9)
    rows, sample = pool_of(samples)
    gram, n, blocks = gaussian(rows, rows, 0.3), len(rows), len(rows) // 4
    numbers = block_numbers(found.seed, n, blocks)

    def mmd(kept):
        return oracles.mean_mmd(oracles.v_mmd, gram[np.ix_(kept, kept)], sample[kept])

    whole, h = mmd(numbers >= 0), n / np.bincount(numbers)
    deleted = np.array([mmd(numbers != b) for b in range(blocks)])
    centre = blocks * whole - ((1 - 1 / h) * deleted).sum()
    pseudo = h * whole - (h - 1) * deleted
    error = np.sqrt(((pseudo - centre) ** 2 / (h - 1)).mean())
    assert found.estimate == pytest.approx(whole, rel=1e-9)
    # The interval is of U-statistics, which differ from V-statistics without their bias by 1/n^2.
    assert found.interval.centre == pytest.approx(centre, abs=0.1 * error)
    assert found.interval.error == pytest.approx(error, rel=0.05)


@pytest.mark.parametrize("estimator", ["auto", "nystrom-mmd", "u-mmd"])
def test_interval__of_every_estimator_is_near_that_of_all_pairs(estimator, rng):
    samples = rng.standard_normal(900), rng.standard_normal(300) + 0.7
    pairs, found = (
        compare(*samples, estimator=name, confidence=0.95, n_resamples=19)
        for name in ("v-mmd", estimator)
    )
    # 50 blocks tell a standard error but for a tenth.
    assert found.interval.error == pytest.approx(pairs.interval.error, rel=0.5)
    assert found.interval.centre == pytest.approx(pairs.interval.centre, rel=0.1)
    frame = found.to_frame()
    assert frame["conf_low"][0] <= frame["estimate"][0] <= frame["conf_high"][0]
    assert type(found).from_json(found.to_json()) == found


@pytest.mark.parametrize("null", ["shifts", "permutation"])
def test_interval__of_another_pass_is_about_that_of_the_test(samples, null):
    options = {"kernels": "gaussian", "estimator": "nystrom-mmd", "confidence": 0.95}
    with_test = compare(*samples, null=null, n_resamples=99, **options)
    alone = dhsic.two_sample_test(*samples, null="spectral", rng=1, **options)
    assert with_test.interval.centre == pytest.approx(alone.interval.centre, rel=0.05)
    assert with_test.interval.error == pytest.approx(alone.interval.error, rel=0.5)


def test_level__sets_the_width_and_changes_no_pvalue(samples):
    plain, wide, narrow = (compare(*samples, confidence=level) for level in (None, 0.99, 0.8))
    assert plain.interval is None
    assert wide.interval.low <= narrow.interval.low < narrow.interval.high < wide.interval.high
    assert (wide.pvalue, wide.estimate) == (plain.pvalue, plain.estimate)
    # Of a grid the interval is that of its reference.
    grid = compare(*samples, kernels=None, estimator="v-mmd", confidence=0.9)
    assert grid.interval.low <= grid.estimate <= grid.interval.high


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"groups": [np.arange(61) // 2, 100 + np.arange(25)]}, InvalidArgumentError, "got groups"),
        ({"confidence": 0.0}, InvalidArgumentError, "confidence must be"),
        ({"estimator": "block-mmd"}, InvalidArgumentError, "'block-mmd' has none"),
        ({"estimator": "rff-mmd"}, InvalidArgumentError, "'rff-mmd' has none"),
    ],
)
def test_refusals__name_the_remedy(samples, options, error, told):
    with pytest.raises(error, match=told):
        compare(*samples, **{"confidence": 0.95, **options})


def test_few_rows__are_refused(samples):
    with pytest.raises(DataError, match="at least 40 rows, got 30"):
        compare(samples[0][:20], samples[1][:10], confidence=0.95)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("sizes", "means"), [((450, 75), (0.0, 1.5)), ((400, 60, 140), (0.0, 1.5, -1.0))]
)
def test_interval__holds_the_discrepancy_of_the_populations(sizes, means):
    # E k(x, y) of unit normals whose means differ by d is exp(-d^2 / 6) / sqrt(3) for gamma 0.5.
    def mmd2(d):
        return 2.0 * (1.0 - np.exp(-(d**2) / 6.0)) / np.sqrt(3.0)

    pairs = [(i, j) for i in range(len(sizes)) for j in range(i)]
    weights = np.array([sizes[i] * sizes[j] for i, j in pairs])
    truth = weights @ [mmd2(means[i] - means[j]) for i, j in pairs] / weights.sum()
    held = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        data = [rng.standard_normal(n) + m for n, m in zip(sizes, means, strict=True)]
        options = {"kernels": "gaussian:0.5", "n_resamples": 19, "confidence": 0.95, "rng": seed}
        interval = dhsic.two_sample_test(*data, estimator="v-mmd", threads=1, **options).interval
        held.append(interval.low <= truth <= interval.high)
    # 93 to 98 %, but for four standard errors of 400 data sets.
    assert 0.93 - 0.044 <= np.mean(held) <= 0.98 + 0.02
