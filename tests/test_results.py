"""One contract of all results: JSON, pickle, copies, text, frame and picture of every class.

Every public class of results is made here by a public call. A class that is not in the table fails
`test_table__has_every_class`.
"""

import copy
import dataclasses
import html
import importlib
import inspect
import json
import pickle
import pkgutil
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import dhsic
from dhsic import analysis, causal
from dhsic.bench import scaling_study
from dhsic.errors import InvalidArgumentError

N = 80
X, Y, Z, W = np.random.default_rng(0).standard_normal((4, N))
Y = X**2 + 0.5 * Y
MANY, OTHERS = np.random.default_rng(1).standard_normal((2, 120))
WIDE = np.column_stack([X, Z, W])
KNOWN = analysis.CovarianceSpectrum(np.array([0.6, 0.3, 0.1]), supremum=1.0)
PRODUCT = analysis.CovarianceSpectrum(np.kron(KNOWN.eigenvalues, KNOWN.eigenvalues), 1.0)
HERE = {"landmarks": [10, 20], "workers": [1], "scheduler": ["threads"]}
TRUTH = np.array([True, False, True])


@cache
def directions():
    return causal.directions([(X, Y), (Y, X), (X, Z)], rng=0)


WITH_INTERVALS = {"interval", "assessed", "difference", "matrix with intervals"}

# A public call of every class, and how many rows the frame of its result has: one a test, or one
# a pair, column, edge, point, eigenvalue or step; None where that is a matter of the data.
MAKE = {
    "independence": (lambda: dhsic.independence_test(X, Y, rng=0), 1),
    "one kernel": (lambda: dhsic.independence_test(X, Y, kernels="gaussian", rng=0), 1),
    "fitted law": (lambda: dhsic.independence_test(X, Z, null="gamma", rng=0), 1),
    "chain": (lambda: dhsic.independence_test(X, Y, Z, rng=0), 1),
    "interaction": (lambda: dhsic.interaction_test(X, Y, Z, rng=0), 1),
    "two samples": (lambda: dhsic.two_sample_test(X, Y, rng=0), 1),
    "residuals": (lambda: causal.residual_independence_test(X, Y, given=Z, rng=0), 1),
    "conditional": (
        lambda: dhsic.conditional_independence_test(MANY, MANY**2, given=OTHERS, rng=0),
        1,
    ),
    "estimate": (lambda: dhsic.hsic(X, Y, rng=0), 1),
    "interval": (lambda: dhsic.hsic(X, Y, estimator="dcor", confidence=0.9, minimum=0.1, rng=0), 1),
    "assessed": (lambda: dhsic.independence_test(X, Y, confidence=0.9, minimum=0.1, rng=0), 1),
    "difference": (lambda: dhsic.dependence_difference(X, Y, Z, rng=0), 3),
    "landmarks": (lambda: dhsic.hsic(X, Y, estimator="nystrom-m", rng=0), 1),
    "features": (lambda: dhsic.hsic(X, Y, estimator="rff-hsic", rng=0), 1),
    "matrix": (lambda: dhsic.dependence_matrix(X, Y, Z, rng=0), 3),
    "matrix with intervals": (lambda: dhsic.dependence_matrix(X, Y, Z, confidence=0.9, rng=0), 3),
    "lags": (lambda: dhsic.lag_scan(MANY, MANY**2 + OTHERS, 2, rng=0), 5),
    "ranking": (lambda: dhsic.rank_features(WIDE, Y, rng=0), 3),
    "selection": (lambda: dhsic.select_features(WIDE, Y, 2, rng=0), 2),
    "map": (lambda: dhsic.sensitivity_map(WIDE, Y, rng=0), 4),
    "flat map": (lambda: dhsic.sensitivity_map(X, Y, rng=0), 2),
    "embedding": (lambda: dhsic.mean_embedding(X, "gaussian:0.5", rng=0), None),
    "witness": (lambda: dhsic.witness_functions(X, Y, rng=0), None),
    "plan": (lambda: dhsic.plan(X, Y), None),
    "direction": (lambda: causal.direction(X, Y, rng=0), 1),
    "directions": (directions, 3),
    "graph": (lambda: causal.DAG(("a", "b", "c"), ((), (0,), (0, 1))), 3),
    "graphs": (lambda: causal.score_dags(X, Y, Z, rng=0), 25),
    "search": (lambda: causal.search_dag(X, Y, Z, rng=0), None),
    "accuracy": (lambda: directions().accuracy_curve(TRUTH), None),
    "spectrum": (lambda: analysis.covariance_spectrum(X, kernels="laplacian:1.0"), N),
    "embedding bound": (lambda: analysis.mean_embedding_bound(10**6, 1000, 0.1, KNOWN), 1),
    "bound": (lambda: analysis.nystrom_m_bound(10**6, 10**5, 0.03, PRODUCT, (KNOWN, KNOWN)), 3),
    "MMD bound": (
        lambda: analysis.nystrom_mmd_bound((10**6,) * 2, (10**4,) * 2, 0.1, (KNOWN, KNOWN)),
        2,
    ),
    "V-statistic bound": (lambda: analysis.v_statistic_bound(10**6, 0.1, 0.2), 1),
    "law": (lambda: analysis.dependence_law(X, X + Y, kernels="gaussian:0.5"), 1),
    "study": (
        lambda: scaling_study(X, Y, vary=HERE, repeats=1, progress=None, kernels="gaussian", rng=0),
        2,
    ),
}
made = cache(lambda name: MAKE[name][0]())


@pytest.fixture(params=MAKE)
def name(request):
    yield request.param
    plt.close("all")


@pytest.fixture
def result(name):
    return made(name)


def classes_of_results():
    """All classes that read JSON, but for those that others derive from."""
    found = set()
    for module in pkgutil.walk_packages(dhsic.__path__, "dhsic."):
        if not module.name.endswith("__main__"):
            members = vars(importlib.import_module(module.name)).values()
            found |= {one for one in members if inspect.isclass(one) and one.__name__[0] != "_"}
    found = {one for one in found if hasattr(one, "from_json") and hasattr(one, "summary")}
    bases = {base for one in found for base in one.__mro__[1:]}
    return {one.__name__ for one in found if one not in bases}


def test_table__has_every_class():
    in_table = {type(made(name)).__name__ for name in MAKE}
    assert classes_of_results() <= in_table


def test_json__comes_back_with_every_bit(result):
    for indent in (None, 2):
        again = type(result).from_json(result.to_json(indent=indent))
        assert type(again) is type(result)
        assert again.to_json() == result.to_json()
        assert again == result or isinstance(result, type(made("plan")))
        assert again.records() == result.records()
        assert str(again).splitlines()[0] == str(result).splitlines()[0]
    assert ("\n" in result.to_json(indent=2)) > ("\n" in result.to_json())


def test_dict__is_of_plain_types(result):
    data = result.to_dict()
    assert data["result"] == type(result).__name__
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_pickle_and_copies__are_the_same_result(result):
    again = pickle.loads(pickle.dumps(result))
    for other in (again, copy.copy(result), copy.deepcopy(result)):
        assert type(other) is type(result)
        assert other.to_json() == result.to_json()


def test_result__is_frozen(result):
    for field in dataclasses.fields(result):
        with pytest.raises(dataclasses.FrozenInstanceError, match=field.name):
            setattr(result, field.name, 0.0)
        value = getattr(result, field.name) if field.init else None
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[...] = 0.0


def test_result__that_holds_arrays_is_not_hashable():
    with pytest.raises(TypeError, match="unhashable"):
        hash(made("independence"))


def test_arrays__are_copies_of_what_was_given():
    given = np.array([1, 2, 3], np.float32)
    result = dataclasses.replace(made("one kernel"), null_distribution=given)
    given[0] = 9
    assert result.null_distribution.dtype == np.float64
    np.testing.assert_array_equal(result.null_distribution, [1.0, 2.0, 3.0])


def changed(value):
    """Another value of the same type; None where none is at hand."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return np.nextafter(value, np.inf) if isinstance(value, float) else value + 1
    if isinstance(value, str):
        return None
    if isinstance(value, dict):
        for key, item in value.items():
            if (other := changed(item)) is not None:
                return {**value, key: other}
    if isinstance(value, list):
        for place, item in enumerate(value):
            if (other := changed(item)) is not None:
                return [*value[:place], other, *value[place + 1 :]]
    return None


def test_equality__covers_every_number_of_every_field(result):
    data = result.to_dict()
    fields = {field: changed(data[field]) for field in set(data) - {"result"}}
    for field, other in fields.items():
        if other is not None and not isinstance(result, causal.DAG):  # its numbers are nodes
            text = json.dumps({**data, field: other})
            assert type(result).from_json(text) != result, field


def test_equality__covers_texts_and_classes():
    result = made("independence")
    texts = [field for field, value in result.to_dict().items() if isinstance(value, str)]
    for field in set(texts) - {"result"}:
        assert dataclasses.replace(result, **{field: "other"}) != result
    assert dataclasses.replace(result, grid=None) != result
    assert result != made("estimate")
    assert result != result.to_json()


def swapped(value):
    """A value of another type."""
    return {"not": "it"} if isinstance(value, list | str) else [["not"], "it"]


def test_json__of_something_else_is_refused(result):
    kind, data = type(result), result.to_dict()
    wrong = [{**data, "a field of a later version": 1}, {**data, "result": "Another"}]
    if kind.__name__ != "ScalingStudy":  # a run has any settings
        wrong += [{**data, field: swapped(data[field])} for field in set(data) - {"result"}]
    texts = [json.dumps(one) for one in wrong]
    texts += ["", "not json", "[]", "3", "null", "{}", None, result.to_json()[:-1]]
    for text in texts:
        with pytest.raises(InvalidArgumentError, match=f"JSON of a {kind.__name__}, got"):
            kind.from_json(text)


def test_json__of_an_earlier_version_has_defaults_and_needs_the_rest(result):
    data = result.to_dict()
    for field in dataclasses.fields(result):
        if field.name not in data:
            continue
        text = json.dumps({key: value for key, value in data.items() if key != field.name})
        if field.default is field.default_factory is dataclasses.MISSING:
            with pytest.raises(InvalidArgumentError, match=field.name):
                type(result).from_json(text)
        elif not (isinstance(result, dhsic.SensitivityMap) and field.name == "columns"):
            assert type(result).from_json(text).to_dict().keys() == data.keys()


def test_json__says_which_field_is_wrong_and_takes_no_text_for_a_number():
    result = made("one kernel")
    data = result.to_dict()
    for wrong in ("0.5", True, [0.5], None, {"a": 1}):
        with pytest.raises(InvalidArgumentError, match="seconds must be float, got"):
            dhsic.IndependenceTestResult.from_json(json.dumps({**data, "seconds": wrong}))
    for constant in ("NaN", "Infinity", "-Infinity"):
        text = re.sub(r'"seconds": [^,}]+', f'"seconds": {constant}', result.to_json())
        assert constant in text
        with pytest.raises(InvalidArgumentError, match="JSON of a IndependenceTestResult"):
            dhsic.IndependenceTestResult.from_json(text)
    whole = json.dumps({**data, "seconds": 2})
    assert dhsic.IndependenceTestResult.from_json(whole).seconds == 2.0


def test_json__has_infinity_as_a_word_numpy_as_numbers_and_no_nan():
    curve = dataclasses.replace(made("accuracy"), accuracy=np.array([np.inf, 1.0]))
    assert curve.to_dict()["accuracy"][0] == "Infinity"
    again = type(curve).from_json(curve.to_json())
    np.testing.assert_array_equal(again.accuracy, curve.accuracy)
    result = made("one kernel")
    numpy = dataclasses.replace(result, n=np.int64(N), pvalue=np.float64(result.pvalue))
    assert type(result).from_json(numpy.to_json()) == result
    with pytest.raises(ValueError, match="JSON compliant"):
        dataclasses.replace(result, estimate=float("nan")).to_json()
    with pytest.raises(TypeError, match="complex cannot be written as JSON"):
        dataclasses.replace(result, estimate=1j).to_json()


def test_repr__is_short_and_names_the_class(result):
    text = repr(result)
    assert text.startswith(f"<{type(result).__name__}: ")
    assert text.endswith(">")
    assert len(text) < 400
    assert "\n" not in text


def test_text__has_every_label_with_what_it_says(result):
    text, page = str(result), html.unescape(result._repr_html_())
    for label, said in result.summary():
        assert label in page
        assert said in page or "\n" in said
        if not isinstance(result, causal.DAG | type(made("plan"))):
            assert re.search(rf"^{re.escape(label)} +{re.escape(said)}$", text, re.MULTILINE)


def test_html__escapes_names_and_closes_its_elements(result):
    page = result._repr_html_()
    for tag in ("div", "table", "tr", "td", "th", "style"):
        assert len(re.findall(rf"<{tag}\b", page)) == page.count(f"</{tag}>")
    assert "<script>" not in dataclasses.replace(made("ranking"), target="<script>")._repr_html_()


STANDARD = ["statistic", "p_value", "estimate", "conf_low", "conf_high", "n", "method"]
# Frames of results that measure no dependence have columns of their own.
OWN = {"embedding", "witness", "plan", "graph", "accuracy", "spectrum", "law"}
OWN |= {"embedding bound", "bound", "MMD bound", "V-statistic bound"}


def test_frame__has_the_records_in_the_columns_of_tidy_tables(name, result):
    frame, records = result.to_frame(), result.records()
    assert len(frame) == len(records) == (MAKE[name][1] or len(records))
    again = type(result).from_json(result.to_json())
    pd.testing.assert_frame_equal(again.to_frame(), frame)
    header, rows = result.table()
    assert len(rows) == len(records)
    assert {len(row) for row in rows} == {len(header)}
    assert len(result.table(1)[1]) == 1
    if name in {*OWN, "study"}:
        assert list(frame) == list(records[0])
        return
    count = list(frame).index("statistic")
    assert list(frame)[:count] in (["term"], ["x", "y"], ["term", "x", "y"])
    assert list(frame)[count : count + 7] == STANDARD
    assert set(frame) == {*STANDARD, *records[0]}
    numbers, texts = frame[STANDARD[:5]], [*list(frame)[:count], "method"]
    assert (numbers.dtypes == np.float64).all()
    assert frame["n"].dtype == np.int64
    assert all(isinstance(text, str) and text for text in frame[texts].to_numpy().ravel())
    for column in ("statistic", "p_value", "estimate"):
        told = [row.get(column) for row in records]
        np.testing.assert_array_equal(frame[column], np.array(told, np.float64))
    ends = frame[["conf_low", "conf_high"]].to_numpy()
    if name in WITH_INTERVALS:
        assert (ends[:, 0] <= ends[:, 1]).all()
    else:
        assert np.isnan(ends).all()
    assert ((frame["p_value"] > 0) & (frame["p_value"] <= 1) | frame["p_value"].isna()).all()
    if "p_adjusted" in frame:
        assert (frame["p_adjusted"] >= frame["p_value"]).all()


def test_frame__of_tests_is_what_they_found():
    frame = pd.concat([made(name).to_frame() for name in ("independence", "estimate", "matrix")])
    test, matrix = made("independence"), made("matrix")
    assert list(frame["term"])[:2] == ["x1, x2"] * 2
    assert (frame["p_value"].iloc[0], frame["estimate"].iloc[0]) == (test.pvalue, test.estimate)
    assert list(frame["method"])[:3] == ["v-hsic, shifts", "u-hsic", "nystrom-hsic, shifts"]
    pairs = zip(frame["x"][2:], frame["y"][2:], frame["p_adjusted"][2:], strict=True)
    at = {name: place for place, name in enumerate(matrix.names)}
    assert all(matrix.adjusted[at[x], at[y]] == p for x, y, p in pairs)
    with pytest.raises(AttributeError, match=r"'to_pandas'; take to_frame\(\)"):
        test.to_pandas()


def test_plot__is_on_the_axes_that_are_given(result):
    if type(result) is dhsic.DependenceEstimate:
        assert not hasattr(result, "plot")  # of one number
        return
    _, ax = plt.subplots()
    assert result.plot(ax) is ax
    assert ax.lines or ax.patches or ax.collections or ax.images
    assert result.plot() is not ax


# What results say of their p-values


def told(result):
    return html.unescape(dict(result.summary())["p-value"])


def test_pvalue__at_its_floor_is_a_bound_with_what_would_tell_more():
    least = dataclasses.replace(
        made("one kernel"), null_distribution=np.zeros(249), pvalue=1 / 250, pvalue_error=0.004
    )
    assert told(least).startswith("<= 0.004 (the smallest with 249 replicates; take 2,499 or so")
    assert "p <= 0.004," in repr(least)
    above = dataclasses.replace(least, pvalue=2 / 250)
    assert told(above) == "0.008 ± 0.004"
    assert "p = 0.008," in repr(above)
    assert told(dataclasses.replace(least, pvalue=1.5e-20, pvalue_error=None)) == "1.5e-20"


@pytest.mark.parametrize("aggregate", ["max", "min-p", "soft"])
@pytest.mark.parametrize(("share", "rank"), [(0.1, 1), (0.8, 3)])
def test_pvalue__of_a_grid_that_cannot_be_smaller_is_a_bound(aggregate, share, rank):
    """Where the reference tells nothing, rank 3 of 99 replicates is as good as rank 1 by 0.2."""
    candidates = dhsic.Candidates("gaussian", (1 / 16, 1.0))
    grid = dhsic.Grid(candidates, combine="all", aggregate=aggregate, reference_share=share)
    x = np.linspace(-1.0, 1.0, 120)
    options = {"estimator": "v-hsic", "null": dhsic.Permutation(99), "rng": 0}
    result = dhsic.independence_test(x, np.cos(25.0 * x), kernels=grid, **options)
    rank = 1 if aggregate == "soft" else rank
    assert (result.grid.best_rank, result.pvalue) == (rank, pytest.approx(rank / 100))
    alone = " of one combination" if rank > 1 else ""
    assert told(result).startswith(f"<= {result.pvalue:.4g} (the smallest{alone} with 99 replica")


def test_pvalue__of_a_chain_with_a_stage_at_its_floor_is_a_bound():
    result = made("chain")
    (row, *_) = result.findings(0.05, "bh").tables["Kernels tried"]
    assert next(name for name in row if "kernel" in name) == "kernel of variables before x2"
    count = len(result.null_distribution)
    first = result.stages[0]
    assert first.pvalue == pytest.approx(1 / (count + 1))
    assert first.told(count).startswith("x2 on x1: p <= ")
    assert told(result).startswith(f"<= {result.pvalue:.4g} (that of a stage is the smallest")
    free = dataclasses.replace(result, null_distribution=np.zeros(count + 1))
    assert told(free).startswith(f"{result.pvalue:.4g}")
    assert first.told(count + 1).startswith("x2 on x1: p = ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pvalue": 0.01, "pvalue_error": 0.001}, "rejected at level 0.05 (p"),
        ({"pvalue": 0.2, "pvalue_error": 0.001}, "not rejected at level 0.05 (p"),
        ({"pvalue": 0.051, "pvalue_error": None}, "not rejected at level 0.05 (p"),
        ({"pvalue": 0.051, "pvalue_error": 0.01}, "a close call, take more replicates"),
        ({"pvalue": 0.5, "null_distribution": np.zeros(9)}, "9 replicates never can, take 19 or"),
    ],
)
def test_decision__tells_where_more_replicates_could_say_otherwise(changes, words):
    result = dataclasses.replace(made("one kernel"), **changes)
    assert words in result.findings(0.05, "bh").lead


def test_floor__of_pairs_and_features_is_told():
    matrix, ranking = made("matrix"), made("ranking")
    assert ranking.n_resamples == 1039  # all shifts of 13 orders of 80 rows, but for the data
    assert f"p <= {1 / 1040:.4g} (the smallest" in dict(matrix.summary())["strongest"]
    assert sum(f.pvalue == pytest.approx(1 / 1040) for f in ranking.features) == 1
    assert dict(ranking.summary())["p-values"].startswith("1 feature has the smallest with 1,039")
    above = dataclasses.replace(ranking, n_resamples=1040)
    assert "p-values" not in dict(above.summary())
    fitted = dhsic.dependence_matrix(X, Y, null="spectral", rng=0)
    assert "smallest" not in dict(fitted.summary())["strongest"]


def test_ranking__says_where_bh_cannot_find_so_few():
    def limit(replicates):
        least = [dataclasses.replace(made("ranking").features[0], pvalue=1 / (replicates + 1))] * 2
        rest = [dataclasses.replace(least[0], pvalue=0.5)] * 998
        found = dataclasses.replace(
            made("ranking"), n_resamples=replicates, features=(*least, *rest)
        )
        return dict(found.summary())["p-values"]

    # 2 of 1,000 p-values are rejected by bh where they are at most 2 * 0.05 / 1,000.
    assert limit(9_998).endswith("; bh needs 9,999 to find so few at level 0.05, max-t no more")
    assert "bh" not in limit(9_999)


# What does not come back


def test_map__that_came_back_has_no_rows():
    again = pickle.loads(pickle.dumps(made("flat map")))
    assert "not kept" in dict(again.summary())["map"]
    for read in (lambda: again.maps, lambda: again.samples, again.points):
        with pytest.raises(InvalidArgumentError, match=r"call dhsic\.sensitivity_map again"):
            read()
    assert copy.copy(made("flat map")).samples.shape == (N,)
    assert again.plot().patches
    plt.close("all")


def test_plan__that_came_back_tells_the_same():
    plan = made("plan")
    again = pickle.loads(pickle.dumps(plan))
    assert str(again) == str(plan)
    assert again.peak_bytes == plan.peak_bytes
