"""Results: frozen values that survive JSON."""

import builtins
import dataclasses
import html
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dhsic.errors import InvalidArgumentError, MissingDependencyError
from dhsic.kernels import parse
from dhsic.nulls.aggregate import aggregate
from dhsic.results import (
    DependenceEstimate,
    FeatureSummary,
    GridSummary,
    IndependenceTestResult,
    KernelCombination,
    LandmarkSummary,
    PassSummary,
    Result,
    StageSummary,
    StoredArraySummary,
    VariableSummary,
    decision,
    kernel_text,
    length_of,
)
from dhsic.results.picture import draw_bars

COMMON = {
    "estimate": 0.1 + 0.2,
    "quantity": "squared HSIC",
    "estimator": "nystrom-m",
    "estimator_reason": "as asked",
    "n": 515_345,
    "variables": (
        VariableSummary("timbre", 90, "gaussian:0.01"),
        VariableSummary("year", 1, "delta"),
    ),
    "landmarks": LandmarkSummary(5744, 1200, "independent", False, 1e-8),
    "features": FeatureSummary("cos-sin", (1000, 200), orthogonal=True),
    "precision": "float64",
    "seed": 2**63 + 1,
    "passes": (
        PassSummary("kernel sums", 32, 375_171_160, 4.9),
        PassSummary("multiplier null", 32, 1, 13.4),
    ),
    "seconds": 20.25,
    "version": "1.2.3",
    "dropped": 7,
    "missing": (3, 0),
}
TEST = {
    "statistic": 12.345678901234567,
    "pvalue": 1 / 3,
    "pvalue_error": 0.0298,
    "null_distribution": np.array([1.0, 0.1 + 0.2, 1e-300]),
    "null": "multiplier",
    "null_reason": "one matrix product",
    "score": 2.5,
    "null_scores": np.array([0.5, 0.25, 2.0]),
    "grid": GridSummary(
        "max",
        0.25,
        0,
        1,
        (
            KernelCombination(("gaussian:0.01", "delta"), 0.1 + 0.2, -0.5, 0.7),
            KernelCombination(("gaussian:0.04", "delta"), 9.5, 4.25, 0.004, (0.5, None)),
        ),
    ),
}
CHANGED = {
    "estimate": 0.3,
    "quantity": "COCO",
    "estimator": "v-hsic",
    "estimator_reason": "quick for so few rows",
    "n": 1,
    "variables": COMMON["variables"][::-1],
    "landmarks": None,
    "features": None,
    "precision": "float32",
    "seed": 2**63,
    "passes": (),
    "seconds": 20.5,
    "version": "1.2.4",
    "dropped": 9,
    "missing": (4, 0),
    "statistic": 12.345678901234569,
    "pvalue": 0.25,
    "pvalue_error": 0.03,
    "null_distribution": np.array([1.0, 0.3, 1e-300]),
    "null": "permutation",
    "null_reason": "exact",
    "score": None,
    "null_scores": np.array([0.5, 0.25, 2.1]),
    "grid": None,
    "data": (StoredArraySummary("a", 10, 1, 900, ("crc32c",), "0f"),),
    "stages": (StageSummary("c", ("a", "b"), ("delta", "delta", "gaussian:1.0"), 3.5, 0.25),),
}
FEATURES = {"kind": "complex", "counts": (1000, 201), "orthogonal": False}
LANDMARKS = {
    "drawn": 1,
    "kept": (1200, 3),
    "pairing": "joint",
    "replace": True,
    "tolerance": 0.5,
    "jitter": 1.0,
    "selection": "leverage",
    "pool": 9000,
    "choice": "because",
}


def estimate(**changes):
    return DependenceEstimate(**{**COMMON, **changes})


def outcome(**changes):
    return IndependenceTestResult(**{**COMMON, **TEST, **changes})


@pytest.mark.parametrize(
    "result",
    [
        estimate(),
        estimate(landmarks=None, features=None),
        estimate(landmarks=LandmarkSummary(9, (3, 4), "joint", True, 0.0)),
        outcome(),
        outcome(passes=()),
        outcome(data=CHANGED["data"]),
        outcome(pvalue_error=None, pvalue=1e-300),
        outcome(grid=None),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_json__gives_the_same_result_back(result, indent):
    again = type(result).from_json(result.to_json(indent=indent))
    assert again == result
    for field in dataclasses.fields(result):
        value, expected = getattr(again, field.name), getattr(result, field.name)
        if field.name in ("landmarks", "features", "grid"):
            assert value == expected
            continue
        assert type(value) is type(expected)
        np.testing.assert_array_equal(value, expected)


def test_json__accepts_numpy_numbers_and_is_indented_where_asked():
    text = outcome(n=np.int64(515_345), pvalue=np.float64(1 / 3)).to_json()
    assert IndependenceTestResult.from_json(text) == outcome()
    assert "\n" not in text
    assert "\n  " in outcome().to_json(indent=2)


def test_stages__are_in_the_summary_and_survive_json():
    result = outcome(stages=CHANGED["stages"])
    assert ("stage", "c on a, b: p <= 0.25") in result.summary()
    again = IndependenceTestResult.from_json(result.to_json())
    assert again.stages == CHANGED["stages"]


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(IndependenceTestResult)])
def test_equality__covers_every_field(field):
    assert outcome(**{field: CHANGED[field]}) != outcome()


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(DependenceEstimate)])
def test_equality__covers_every_field_of_an_estimate(field):
    assert estimate(**{field: CHANGED[field]}) != estimate()


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(LandmarkSummary)])
def test_equality__covers_every_field_of_the_landmarks(field):
    landmarks = dataclasses.replace(COMMON["landmarks"], **{field: LANDMARKS[field]})
    assert outcome(landmarks=landmarks) != outcome()


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(FeatureSummary)])
def test_equality__covers_every_field_of_the_features(field):
    features = dataclasses.replace(COMMON["features"], **{field: FEATURES[field]})
    assert outcome(features=features) != outcome()


def test_equality__holds_between_equal_values_of_one_class_only():
    assert outcome() == outcome()
    assert outcome() != estimate()
    assert outcome() != outcome().to_json()


@pytest.mark.parametrize("result", [estimate(), outcome()])
def test_result__is_not_hashable_nor_iterable(result):
    with pytest.raises(TypeError, match="unhashable"):
        hash(result)
    with pytest.raises(TypeError, match="not iterable"):
        iter(result)
    with pytest.raises(TypeError, match="positional argument"):
        type(result)(1.0)


@pytest.mark.parametrize("field", ["estimate", "pvalue", "new"])
def test_result__is_frozen(field):
    with pytest.raises(dataclasses.FrozenInstanceError, match=field):
        setattr(outcome(), field, 0.0)


def test_null_distribution__is_a_read_only_copy():
    given = np.array([1, 2, 3], np.float32)
    result = outcome(null_distribution=given)
    given[0] = 9
    assert result.null_distribution.dtype == np.float64
    np.testing.assert_array_equal(result.null_distribution, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="read-only"):
        result.null_distribution[0] = 5.0


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(GridSummary)])
def test_equality__covers_every_field_of_the_grid(field):
    others = {"aggregate": "min-p", "strongest": 0, "combinations": ()}
    others |= {"reference": 1, "reference_share": 0.0}
    changed = dataclasses.replace(TEST["grid"], **{field: others[field]})
    assert outcome(grid=changed) != outcome()


def test_summary__tells_that_the_choice_among_kernels_is_accounted_for():
    tried = {"soft": "their soft maximum", "max": "the largest standardised statistic"}
    for how, judged in {**tried, "min-p": "the smallest p-value"}.items():
        grid = dataclasses.replace(TEST["grid"], aggregate=how)
        assert dict(outcome(grid=grid).summary())["kernels"] == (
            f"2 kernel combinations tried, judged by {judged}; p-value corrected for the choice. "
            "The strongest: gaussian, length x 1/2 and delta, 4.2 sd above the null mean."
        )
    told = dict(outcome(grid=grid).summary())["squared HSIC"]
    assert told.endswith(" (of the reference kernels, shown above)")
    assert "kernels" not in dict(outcome(grid=None).summary())


@pytest.mark.parametrize(
    ("kernel", "factor", "scale"),
    [
        ("gaussian:0.0625", 1.0, "gaussian, length x 1"),
        ("scores(gaussian:1.1)", 0.0625, "scores(gaussian), length x 1/16"),
        ("columns(laplacian:1.0,laplacian:2.0)", 4.0, "columns(laplacian) of 2, length x 4"),
        ("rq:1.5:0.25", 0.3, "rq, length x 0.3"),
        ("ranks(anderson-darling)", None, "ranks(anderson-darling)"),
    ],
)
def test_scales__name_the_kernel_and_its_length(kernel, factor, scale):
    assert KernelCombination((kernel,), 1.0, 1.0, 0.5, (factor,)).scales == (scale,)


def grid_of(*tried):
    """Of kernels (name, factor) a variable, with how far the statistic lies above."""
    combinations = [
        KernelCombination(
            tuple(f"{name}:0.5" for name, _ in kernels), z, z, 0.5, tuple(f for _, f in kernels)
        )
        for *kernels, z in tried
    ]
    strongest = int(np.argmax([one.standardised for one in combinations]))
    return GridSummary("soft", 0.5, 0, strongest, tuple(combinations))


WIDE, NARROW, OTHER = ("gaussian", 1.0), ("gaussian", 0.125), ("laplacian", 1.0)


def test_evidence__of_two_variables_is_a_map_of_what_was_tried():
    ax = grid_of((WIDE, WIDE, 0.5), (NARROW, OTHER, 6.25), (NARROW, WIDE, -1.0)).plot()
    rows, columns = ([t.get_text() for t in axis.get_ticklabels()] for axis in (ax.yaxis, ax.xaxis))
    assert rows == ["gaussian\nlength x 1", "gaussian\nlength x 1/8"]
    assert columns == ["gaussian\nlength x 1", "laplacian\nlength x 1"]
    values = ax.images[0].get_array()
    assert values.mask.tolist() == [[False, True], [False, False]]
    assert values[1].tolist() == [-1.0, 6.25]
    frames = {line.get_label(): np.mean(line.get_xydata()[:4], axis=0) for line in ax.lines}
    np.testing.assert_allclose(frames["strongest"], [1.0, 1.0])
    np.testing.assert_allclose(frames["reference"], [0.0, 0.0])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("kernel of x2", "kernel of x1")
    plt.close("all")


def test_evidence__of_one_frame_where_the_reference_is_the_strongest():
    ax = grid_of((WIDE, WIDE, 5.0), (NARROW, NARROW, 1.0)).plot()
    assert [line.get_label() for line in ax.lines] == ["reference and strongest"]
    plt.close("all")


def test_evidence__of_three_variables_has_the_best_of_every_kernel():
    ax = grid_of((WIDE, WIDE, OTHER, 0.5), (NARROW, WIDE, OTHER, 6.0)).plot(names="abc")
    bars = dict(
        zip(
            [text.get_text() for text in ax.get_yticklabels()],
            [patch.get_width() for patch in ax.patches],
            strict=True,
        )
    )
    assert bars == {
        "a: gaussian, x 1": 0.5,
        "a: gaussian, x 1/8": 6.0,
        "b: gaussian, x 1": 6.0,
        "c: laplacian, x 1": 6.0,
    }
    plt.close("all")


def test_plot__of_a_grid_has_the_evidence_beside_the_null():
    ax = outcome(null_scores=np.arange(100.0)).plot()
    null, evidence = ax.figure.axes
    assert null is ax
    assert evidence.get_xlabel() == "kernel of year"
    assert len(outcome(grid=None).plot().figure.axes) == 1
    pictures = outcome(null_scores=np.arange(100.0)).findings(0.05, "bh").sketches
    assert "gaussian, length x 1/2 and delta" in pictures[1].words
    assert pictures[1].draw(plt.subplots()[1]).images
    plt.close("all")


@pytest.mark.parametrize("write", [str, lambda result: result._repr_html_()], ids=["text", "html"])
def test_pvalue__at_its_floor_is_a_bound_with_what_would_tell_more(write):
    count = 249
    least = outcome(null_distribution=np.zeros(count), pvalue=1 / 250, pvalue_error=0.004)
    said = html.unescape(write(least))
    assert "<= 0.004 (the smallest with 249 replicates; take 2,499 or so to tell a" in said
    assert "±" not in said
    assert "p <= 0.004," in repr(least)
    above = dataclasses.replace(least, pvalue=2 / 250)
    assert "0.008 ± 0.004" in write(above)
    assert "p = 0.008," in repr(above)


@pytest.mark.parametrize("how", ["max", "min-p", "soft"])
@pytest.mark.parametrize("share", [0.1, 1 / 3, 0.8])
@pytest.mark.parametrize("strongest", [0, 1])
def test_pvalue__of_one_combination_that_cannot_be_smaller_is_a_bound(how, share, strongest):
    count = 199
    replicates = np.random.default_rng(0).standard_normal((count, 3))
    statistics = np.where(np.arange(3) == strongest, 50.0, -1.0)
    found = aggregate(statistics, replicates, how, np.zeros(3), share=share)
    pvalue = float(found.distribution.sf(found.statistic - found.rounding))
    grid = dataclasses.replace(
        TEST["grid"], aggregate=how, reference_share=share, strongest=found.strongest
    )
    assert pvalue == pytest.approx(grid.best_rank / (count + 1))
    result = outcome(grid=grid, pvalue=pvalue, null_distribution=np.zeros(count))
    of_one = " of one combination" if grid.best_rank > 1 else ""
    said = f"<= {pvalue:.4g} (the smallest{of_one} with 199 replicates; take 1,999 or so"
    assert said in str(result)
    assert f"p <= {pvalue:.4g}," in repr(result)


def test_stage__at_the_floor_is_a_bound():
    stage = CHANGED["stages"][0]
    assert stage.told(3) == "c on a, b: p <= 0.25"
    assert stage.told(4) == "c on a, b: p = 0.25"
    limited = outcome(stages=(stage,), pvalue=0.4375, pvalue_error=None)
    said = "<= 0.4375 (that of a stage is the smallest with 3 replicates; take 39 or so to tell"
    assert dict(limited.summary())["p-value"].startswith(said)
    assert "p <= 0.4375," in repr(limited)
    free = dataclasses.replace(limited, null_distribution=np.zeros(4))
    assert dict(free.summary())["p-value"] == "0.4375"


@pytest.mark.parametrize(
    ("kernel", "rows", "value"),
    [
        ("gaussian", 2, np.exp(-1)),
        ("laplacian", 1, np.exp(-1)),
        ("imq", 2, 2**-0.5),
        ("rq", 2, 0.5),
        ("matern32", 2, (1 + 3**0.5) * np.exp(-(3**0.5))),
    ],
)
def test_length__is_where_the_kernel_has_fallen_to_its_value_at_one(kernel, rows, value):
    sample = np.random.default_rng(0).standard_normal((40, rows)) * 7.0
    fitted = parse(kernel).fit(sample)
    length = length_of(fitted.spec())
    step = np.zeros((2, rows))
    step[1, 0] = length
    assert fitted(step)[0, 1] == pytest.approx(value)
    scaled = parse(kernel).fit(100 * sample)
    assert length_of(scaled.spec()) == pytest.approx(100 * length)
    assert length_of(f"columns({fitted.spec()})") == length


@pytest.mark.parametrize(
    ("kernel", "units"), [("scores", "normal scores"), ("ranks", "ranks from 0 to 1")]
)
def test_length__of_ranks_and_scores_is_in_theirs_whatever_the_units(kernel, units):
    sample = np.random.default_rng(0).standard_normal((40, 1))
    one, other = (parse(f"{kernel}(gaussian)").fit(x).spec() for x in (sample, 1000.0 * sample))
    assert one == other
    assert kernel_text(one).endswith(f"), length {length_of(one):.4g} in {units}")
    assert kernel_text(one) in str(outcome(variables=(VariableSummary("year", 1, one),)))


@pytest.mark.parametrize("kernel", ["delta", "linear", "columns(imq:1.0,imq:2.0)", "delta@0*imq:1"])
def test_length__is_of_kernels_that_have_a_single_one(kernel):
    assert length_of(kernel) is None


def without(field):
    data = outcome().to_dict()
    del data[field]
    return json.dumps(data, default=np.ndarray.tolist)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        "3",
        "null",
        "{}",
        None,
        estimate().to_json(),
        outcome().to_json()[:-1],
        without("pvalue"),
        without("result"),
        outcome().to_json().replace('"seed"', '"sead"'),
        outcome().to_json().replace('"drawn"', '"drown"'),
        outcome().to_json().replace('"counts"', '"count"'),
    ],
)
def test_from_json__refuses_what_is_no_such_result(text):
    with pytest.raises(
        InvalidArgumentError, match="must be the JSON of a IndependenceTestResult, got"
    ):
        IndependenceTestResult.from_json(text)


def test_to_json__refuses_nan():
    with pytest.raises(ValueError, match="JSON compliant"):
        outcome(estimate=float("nan")).to_json()
    with pytest.raises(TypeError, match="complex cannot be written as JSON"):
        outcome(estimate=1j).to_json()


FACTS = [
    "timbre (90 columns, gaussian:0.01, length 10), year (1 column, delta)",
    "515,345",
    "1,200 of 5,744 kept, independent pairing",
    "1,000 and 200 cos-sin, orthogonal",
    "squared HSIC",
    "0.3 (nystrom-m)",
    str(2**63 + 1),
    "20.25 s, 2 passes, float64",
]
TEST_FACTS = [
    "12.3457 (nystrom-m)",
    "0.3333 ± 0.03",
    "multiplier, 3 replicates: one matrix product",
    "0.3",
]


@pytest.mark.parametrize("write", [str, lambda result: result._repr_html_()], ids=["text", "html"])
def test_summary__has_the_facts(write):
    assert [fact for fact in FACTS if fact not in write(estimate())] == []
    assert [
        fact for fact in [*TEST_FACTS, *FACTS[:5], *FACTS[6:]] if fact not in write(outcome())
    ] == []


def test_summary__leaves_out_what_there_is_not():
    text = str(estimate(landmarks=None, features=None, passes=()))
    assert [word for word in ("landmarks", "features", "passes") if word in text] == []


def test_summary__of_a_fitted_law_speaks_of_no_resamples():
    text = str(outcome(null="gamma", pvalue=1.5e-20, pvalue_error=None))
    assert "1.5e-20\n" in text
    assert "gamma: one matrix product" in text
    assert "replicates" not in text
    assert "±" not in text


@pytest.mark.parametrize("result", [estimate, outcome])
def test_summary__says_why_the_estimator_was_chosen_and_what_it_measures(result):
    text = str(result(estimator_reason="quick", quantity="COCO"))
    assert "(nystrom-m: quick)" in text
    assert f"{'COCO':<12}  0.3" in text
    assert "HSIC" not in text


def test_text__aligns_long_labels():
    quantity = "squared distance covariance"
    lines = str(estimate(quantity=quantity)).splitlines()
    assert {line[len(quantity) : len(quantity) + 2] for line in lines} == {"  "}
    assert all(line[len(quantity) + 2] != " " for line in lines)


def test_summary__has_the_landmarks_kept_of_each_variable():
    landmarks = LandmarkSummary(2000, (1200, 80), "independent", False, 1e-8)
    assert "1,200 and 80 of 2,000 kept" in str(outcome(landmarks=landmarks))


def test_decision__of_a_fitted_law_asks_for_no_resamples():
    result = outcome(pvalue=0.0501, pvalue_error=None)
    assert decision(result, 0.05) == "not rejected at level 0.05"
    assert decision(result, 0.0502) == "rejected at level 0.0502"


def test_html__escapes_names():
    page = estimate(variables=(VariableSummary("<script>x & 'y'", 1, "delta"),))._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;x &amp; &#x27;y&#x27;" in page


def test_plot__draws_the_null_and_the_statistic():
    result = outcome(null_scores=np.arange(100.0))
    _, ax = plt.subplots()
    assert result.plot(ax) is ax
    assert sum(patch.get_height() for patch in ax.patches) == 100
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [2.5] * 2)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:2] == ["multiplier null", "score 2.5, p = 0.3333"]
    soft = dataclasses.replace(result, grid=dataclasses.replace(result.grid, aggregate="soft"))
    assert soft.plot().get_xlabel().startswith("nystrom-m soft maximum")
    assert ax.get_title() == "Are timbre and year independent?"
    plt.close("all")


def test_plot__makes_a_figure_where_none_is_given():
    figures = len(plt.get_fignums())
    ax = outcome(score=None, null_scores=None).plot()
    assert len(plt.get_fignums()) == figures + 1
    assert ax.get_xlabel() == "nystrom-m statistic (logarithmic beyond the null)"
    assert ax.get_ylabel() == "replicates"
    assert outcome(pvalue_error=None).plot().get_ylabel() == "draws"
    plt.close("all")


def test_plot__names_the_missing_dependency(monkeypatch):
    real = builtins.__import__

    def blocked(name, *args, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(
        MissingDependencyError, match=r"Plotting needs matplotlib.*pip install 'dhsic\[plot\]'"
    ):
        outcome().plot()


def test_summary__is_text_and_escaped_html_of_its_lines():
    class Read(Result):
        def summary(self):
            return [("a", "x < y"), ("long", "z")]

    assert str(Read()) == "a     x < y\nlong  z"
    assert "x &lt; y" in Read()._repr_html_()


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_from_json__refuses_what_to_json_never_writes(constant):
    text = re.sub(r'"seconds": [^,}]+', f'"seconds": {constant}', outcome().to_json())
    assert constant in text
    with pytest.raises(InvalidArgumentError, match="JSON of a IndependenceTestResult"):
        IndependenceTestResult.from_json(text)


def test_bars__have_a_few_ticks_along_their_lengths():
    axes = draw_bars(plt.figure().gca(), ["a", "b"], [8.0, 4.0], "score", most=5)
    low, high = axes.get_xlim()
    assert 2 <= sum(low <= tick <= high for tick in axes.get_xticks()) <= 6
    plt.close("all")
