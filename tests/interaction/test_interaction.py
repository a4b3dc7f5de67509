"""The Lancaster test takes its options, says what it did, and refuses what it cannot do."""

import re

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import pytest
import zarr

import dhsic
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.kernels import Candidates, Grid

PERMUTED = dhsic.Permutation(30, "groups", group_rows=64)


@pytest.fixture
def triple(rng):
    x, y = rng.standard_normal((2, 300))
    return [x, y, np.sign(x * y) * np.abs(rng.standard_normal(300)) + 2.0 * x]


def interact(*data, **options):
    return dhsic.interaction_test(*data, **{"rng": 1, "n_resamples": 30, **options})


@pytest.mark.parametrize("null", [PERMUTED, dhsic.Multiplier(30)], ids=repr)
def test_sources__of_any_kind_and_chunks_give_the_same(triple, tmp_path, null):
    expected = dhsic.interaction_test(*triple, null=null, rng=1)
    chunked = [da.from_array(a, chunks=c) for a, c in zip(triple, (128, 77, 300), strict=True)]
    stored = [
        zarr.create_array(tmp_path / f"{i}.zarr", data=a[:, None], chunks=(100, 1))
        for i, a in enumerate(triple)
    ]
    for given in (chunked, stored, [triple[0], chunked[1], stored[2]]):
        found = dhsic.interaction_test(*given, null=null, rng=1)
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)
        np.testing.assert_allclose(found.null_distribution, expected.null_distribution, rtol=1e-9)


@pytest.mark.parametrize("null", [dhsic.Permutation(20, "groups", 512), dhsic.Multiplier(20)])
def test_client_and_many_blocks__give_the_same(client, null):
    """5,000 rows are two blocks, and ten groups of permuted rows."""
    x, y, noise = np.random.default_rng(2).standard_normal((3, 5_000))
    options = {"null": null, "estimator": dhsic.NystromMHSIC(20), "rng": 1}
    here, there = (
        dhsic.interaction_test(x, y, x * y + noise, **where, **options)
        for where in ({"threads": 1}, {"client": client})
    )
    assert here.passes[1].blocks > 1
    assert here.statistic == there.statistic
    np.testing.assert_array_equal(here.null_distribution, there.null_distribution)


@pytest.mark.parametrize("estimator", ["nystrom-lancaster", "v-lancaster"])
def test_checkpoint__goes_on_and_knows_the_test(triple, tmp_path, estimator):
    options = {"estimator": estimator, "checkpoint": str(tmp_path / "kept")}
    expected = interact(*triple, estimator=estimator)
    for _ in range(2):
        found = interact(*triple, **options)
        assert found.factorisations == expected.factorisations
        np.testing.assert_array_equal(found.null_distribution, expected.null_distribution)
    with pytest.raises(InvalidArgumentError, match="n_resamples"):
        interact(*triple, **{**options, "n_resamples": 31})


def test_seed__fixes_every_draw(triple):
    first, again, other = (interact(*triple, rng=seed) for seed in (1, 1, 2))
    assert first.pvalue == again.pvalue
    assert first.statistic == again.statistic
    assert first.statistic != other.statistic


def test_options_of_landmarks__are_those_asked_for(triple):
    usual = interact(*triple)
    assert (usual.landmarks.drawn, usual.landmarks.pairing) == (139, "independent")
    few = interact(*triple, estimator=dhsic.NystromMHSIC(25))
    assert few.landmarks.drawn == 25
    assert few.estimate < usual.estimate
    chosen = interact(*triple, estimator=dhsic.NystromMHSIC(25, selection="kmeans++", pool=3))
    assert (chosen.landmarks.selection, chosen.landmarks.pool) == ("kmeans++", 75)
    assert chosen.statistic != few.statistic
    pruned = interact(*triple, estimator=dhsic.NystromMHSIC(25, tolerance=0.6))
    assert pruned.landmarks.kept < few.landmarks.kept
    replaced = interact(*triple, estimator=dhsic.NystromMHSIC(400, replace=True))
    assert replaced.landmarks.drawn == 400


@pytest.mark.parametrize("estimator", ["nystrom-lancaster", "v-lancaster"])
def test_options__are_those_asked_for(triple, estimator):
    usual = interact(*triple, estimator=estimator)
    assert usual.estimator == estimator
    laplacian = interact(*triple, estimator=estimator, kernels=["laplacian", None, "imq"])
    assert [v.kernel.split(":")[0] for v in laplacian.variables] == ["laplacian", "gaussian", "imq"]
    assert laplacian.statistic != usual.statistic
    single = interact(*triple, estimator=estimator, precision="float32")
    assert single.statistic == pytest.approx(usual.statistic, rel=1e-3)
    assert single.statistic != usual.statistic
    named = interact(*triple, estimator=estimator, names=["a", "b", "c"], n_resamples=40)
    assert [one.separated for one in named.factorisations] == ["a", "b", "c"]
    assert [one.together for one in named.factorisations] == [("b", "c"), ("a", "c"), ("a", "b")]
    assert 39 <= len(named.null_distribution) <= 60
    signs = interact(*triple, estimator=estimator, null="multiplier")
    exact = "shifts" if estimator == "nystrom-lancaster" else "permutation"
    assert (signs.null, usual.null) == ("multiplier", exact)
    assert signs.statistic == pytest.approx(usual.statistic, rel=1e-9)


def test_auto__is_exact(triple, rng):
    assert interact(*triple).null_reason.startswith("exact for exchangeable rows; all ")
    many = dhsic.plan_interaction(*rng.standard_normal((3, 20_000)))
    assert [one.name for one in many.passes] == ["kernel sums", "shifts"]
    within = dhsic.interaction_test(*triple, null=PERMUTED, rng=1).null_reason
    assert re.search(r"groups of 6\d rows", within)


def test_names_of_either_kind__are_the_same(triple):
    for name, cls in dhsic.interaction.INTERACTION_ESTIMATORS.items():
        expected = interact(*triple, estimator=name).statistic
        assert interact(*triple, estimator=cls()).statistic == expected
        assert interact(*triple, estimator=cls.name).statistic == expected


def test_result__comes_back_from_json(triple):
    found = interact(*triple)
    again = dhsic.InteractionTestResult.from_json(found.to_json())
    assert again == found
    assert again.factorisations == found.factorisations
    for other in (found.to_json().replace('"separated"', '"apart"'), "{}"):
        with pytest.raises(InvalidArgumentError, match="JSON of a InteractionTestResult"):
            dhsic.InteractionTestResult.from_json(other)
    with pytest.raises(InvalidArgumentError, match="JSON of a IndependenceTestResult"):
        dhsic.IndependenceTestResult.from_json(found.to_json())


def test_result__shows_three_pvalues(triple):
    found = interact(*triple, names=["a", "b", "c"])
    lines = re.findall(r"^factorisation +(.*): p (?:=|<=) (\S+).*$", str(found), re.MULTILINE)
    assert [said for said, _ in lines] == [
        "a independent of (b, c)",
        "b independent of (a, c)",
        "c independent of (a, b)",
    ]
    assert [float(p) for _, p in lines] == pytest.approx(
        [one.pvalue for one in found.factorisations], rel=1e-3
    )
    assert "the largest of the three" in str(found)
    assert found._repr_html_().count("independent of") == 3
    assert found.plot().get_title() == "Does the distribution of a, b and c factorise?"
    plt.close("all")


@pytest.mark.parametrize("null", ["permutation", "multiplier"])
@pytest.mark.parametrize("estimator", ["nystrom-lancaster", "v-lancaster"])
def test_plan__is_what_runs(triple, estimator, null):
    options = {"estimator": estimator, "null": null, "n_resamples": 30}
    planned = dhsic.plan_interaction(*triple, **options)
    ran = interact(*triple, **options)
    expected = [(one.name, one.blocks) for one in planned.passes]
    assert [(one.name, one.blocks) for one in ran.passes] == expected
    assert planned.n == ran.n
    if estimator == "nystrom-lancaster":
        assert planned.n_landmarks == ran.landmarks.drawn


@pytest.mark.parametrize("null", ["permutation", "multiplier"])
def test_plan__counts_what_each_replicate_holds(triple, null):
    n = len(triple[0])
    few, many = (
        dhsic.plan_interaction(*triple, estimator="v-lancaster", null=null, n_resamples=b)
        for b in (10**4, 10**5)
    )
    held = 16 * n * 9 * 10**4  # orders, or signs and their products
    assert many.peak_bytes - few.peak_bytes == pytest.approx(held, rel=0.01)
    (step,) = (step for step in few.steps if step.name == f"{null} null")
    # beside three kernels that are held, and two products of them
    assert step.working_bytes >= (24 + 16) * n * n + 16 * n * 10**4


def test_plan__is_refused_where_it_does_not_fit():
    many = np.random.default_rng(0).standard_normal((3, 30_000))
    with pytest.raises(MemoryBudgetError, match="nystrom-lancaster"):
        interact(*many, estimator="v-lancaster")
    with pytest.raises(MemoryBudgetError, match="fewer landmarks"):
        interact(*many, estimator=dhsic.NystromMHSIC(20_000))


JOINT = dhsic.NystromMHSIC(pairing="joint")


@pytest.mark.parametrize(
    ("count", "options", "error", "message"),
    [
        (2, {}, InvalidArgumentError, "takes three variables, got 2"),
        (4, {}, InvalidArgumentError, "takes three variables, got 4"),
        (3, {"estimator": "lancaster"}, InvalidArgumentError, "one of 'nystrom-lancaster'"),
        (3, {"estimator": dhsic.UHSIC()}, InvalidArgumentError, "NystromMHSIC or a VHSIC"),
        (3, {"estimator": JOINT}, InvalidArgumentError, "pairing must be 'independent'"),
        (3, {"estimator": dhsic.NystromMHSIC("auto")}, InvalidArgumentError, "take a number"),
        (3, {"null": "spectral"}, InvalidArgumentError, "'auto', 'shifts', 'permutation', 'mult"),
        (3, {"null": dhsic.Gamma()}, InvalidArgumentError, "'auto', 'shifts', 'permutation', "),
        (
            3,
            {"null": "shifts", "estimator": "v-lancaster"},
            InvalidArgumentError,
            "'v-lancaster' has no null 'shifts', got 'shifts': take 'permutation'",
        ),
        (3, {"kernels": Grid.auto()}, InvalidArgumentError, "one kernel for each variable"),
        (3, {"kernels": ["imq", Candidates(), None]}, InvalidArgumentError, "one kernel for each"),
        (3, {"kernels": ["imq"]}, InvalidArgumentError, "one for each of 3 variables, got 1"),
        (3, {"n_resamples": 0}, InvalidArgumentError, "n_resamples"),
        (3, {"null": PERMUTED}, InvalidArgumentError, "n_resamples must be left out"),
        (3, {"precision": "half"}, InvalidArgumentError, "precision"),
    ],
)
def test_bad_options__are_refused_in_words(triple, count, options, error, message):
    with pytest.raises(error, match=message):
        interact(*[*triple, triple[0]][:count], **options)


def test_blocks_of_all_pairs__are_refused(triple):
    with pytest.raises(InvalidArgumentError, match="'v-lancaster' permutes all rows"):
        dhsic.interaction_test(*triple, estimator="v-lancaster", null=PERMUTED)


def test_bad_data__are_named(triple):
    x, y, z = triple
    with pytest.raises(DataError, match="'b' is constant"):
        interact(x, np.ones(300), z, names=["a", "b", "c"])
    z[123] = np.nan
    with pytest.raises(DataError, match="'x3' has NaN or infinity, first in row 123"):
        interact(x, y, z)
