"""Every public result: short and readable, copied, pickled, tabulated, drawn, reported, as JSON."""

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
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib import pyplot as plt

import dhsic
from dhsic import analysis, causal
from dhsic.bench import scaling_study
from dhsic.causal.pair_residuals import pair_residuals
from dhsic.errors import InvalidArgumentError, MissingDependencyError
from dhsic.results import BarResult, DependenceEstimate, Result
from dhsic.results.estimate import MeasureResult

N = 80
X, Y, Z, W = np.random.default_rng(0).standard_normal((4, N))
Y = X**2 + 0.5 * Y
MANY, OTHERS = np.random.default_rng(1).standard_normal((2, 120))
WIDE = np.column_stack([X, Z, W])
KNOWN = analysis.CovarianceSpectrum(np.array([0.6, 0.3, 0.1]), supremum=1.0)
PRODUCT = analysis.CovarianceSpectrum(np.kron(KNOWN.eigenvalues, KNOWN.eigenvalues), 1.0)
HERE = {"landmarks": [10, 20], "workers": [1], "scheduler": ["threads"]}


@cache
def directions():
    return causal.directions([(X, Y), (Y, X), (X, Z)], rng=0)


def truth():
    return np.array([True, False, True])


MAKE = {
    "independence": lambda: dhsic.independence_test(X, Y, rng=0),
    "one kernel": lambda: dhsic.independence_test(X, Y, kernels="gaussian", rng=0),
    "fitted law": lambda: dhsic.independence_test(X, Z, null="gamma", rng=0),
    "chain": lambda: dhsic.independence_test(X, Y, Z, rng=0),
    "interaction": lambda: dhsic.interaction_test(X, Y, Z, rng=0),
    "two samples": lambda: dhsic.two_sample_test(X, Y, rng=0),
    "of residuals": lambda: causal.residual_independence_test(X, Y, given=Z, rng=0),
    "conditional": lambda: dhsic.conditional_independence_test(MANY, MANY**2, given=OTHERS, rng=0),
    "estimate": lambda: dhsic.hsic(X, Y, rng=0),
    "matrix": lambda: dhsic.dependence_matrix(X, Y, Z, rng=0),
    "ranking": lambda: dhsic.rank_features(WIDE, Y, rng=0),
    "selection": lambda: dhsic.select_features(WIDE, Y, 2, rng=0),
    "map": lambda: dhsic.sensitivity_map(WIDE, Y, rng=0),
    "flat map": lambda: dhsic.sensitivity_map(X, Y, rng=0),
    "embedding": lambda: dhsic.mean_embedding(X, "gaussian:0.5", rng=0),
    "witness": lambda: dhsic.witness_functions(X, Y, rng=0),
    "wide witness": lambda: dhsic.witness_functions(WIDE, Y, rng=0),
    "plan": lambda: dhsic.plan(X, Y),
    "direction": lambda: causal.direction(X, Y, rng=0),
    "directions": directions,
    "residuals": lambda: pair_residuals(X, Y, rng=0),
    "wide residuals": lambda: pair_residuals(WIDE[:, :2], Y, names=["wide", "y"], rng=0),
    "graph": lambda: causal.DAG(("a", "b", "c"), ((), (0,), (0, 1))),
    "roc": lambda: directions().roc_curve(truth()),
    "precision": lambda: directions().precision_recall_curve(truth()),
    "accuracy": lambda: directions().accuracy_curve(truth()),
    "dags": lambda: causal.score_dags(X, Y, Z, rng=0),
    "search": lambda: causal.search_dag(X, Y, Z, rng=0),
    "spectrum": lambda: analysis.covariance_spectrum(X, kernels="laplacian:1.0"),
    "embedding bound": lambda: analysis.mean_embedding_bound(10**6, 1000, 0.1, KNOWN),
    "bound": lambda: analysis.nystrom_m_bound(10**6, 10**5, 0.03, PRODUCT, (KNOWN, KNOWN)),
    "study": lambda: scaling_study(X, Y, vary=HERE, repeats=1, progress=None, kernels="gaussian"),
}
# Rows of the data frame: one a test, or one a pair, column, edge, point or step.
ROWS = {
    "matrix": 3,
    "ranking": 3,
    "selection": 2,
    "map": 4,
    "flat map": 2,
    "directions": 3,
    "residuals": N,
    "wide residuals": N,
    "graph": 3,
    "dags": 25,
    "spectrum": N,
    "bound": 3,
    "study": 2,
}
SEVERAL = ("embedding", "witness", "wide witness", "plan", "roc", "precision", "accuracy", "search")
made = cache(lambda name: MAKE[name]())


@pytest.fixture(params=MAKE)
def name(request):
    yield request.param
    plt.close("all")


@pytest.fixture
def result(name):
    return made(name)


def public_results():
    """Classes of results that derive no further, and those that are returned themselves."""
    for module in pkgutil.walk_packages(dhsic.__path__, "dhsic."):
        if not module.name.endswith("__main__"):
            found = vars(importlib.import_module(module.name)).values()
            yield from (
                one
                for one in found
                if inspect.isclass(one) and issubclass(one, Result) and one.__name__[0] != "_"
            )


def test_contract__is_tested_of_every_class():
    bases = {Result, BarResult, MeasureResult}
    assert {type(made(name)) for name in MAKE} == set(public_results()) - bases


def test_repr__is_short_and_names_the_class(result):
    text = repr(result)
    assert text.startswith(f"<{type(result).__name__}: ")
    assert text.endswith(">")
    assert len(text) < 400
    assert "\n" not in text


def test_repr__of_many_long_names_is_short():
    names = [f"{k} {'long' * 60}" for k in range(8)]
    tested = dhsic.two_sample_test(*np.random.default_rng(0).normal(size=(8, 30)), names=names)
    assert len(repr(tested)) < 400
    estimate = dhsic.hsic(*np.random.default_rng(0).normal(size=(8, 30)), names=names)
    assert len(repr(estimate)) < 400
    assert repr(dataclasses.replace(estimate, estimator="e" * 1000)).endswith("…>")


def test_text__is_of_lines_with_labels(result):
    text = str(result)
    assert text != repr(result)
    if isinstance(result, causal.DAG):  # a line of the texts of others
        assert text == dict(result.summary())["graph"]
        return
    assert len(text.splitlines()) > 1
    if not isinstance(result, type(made("plan"))):
        for label, said in result.summary():
            assert re.search(rf"^{re.escape(label)} +{re.escape(said)}$", text, re.MULTILINE)


def test_json__comes_back_with_every_bit(result):
    again = type(result).from_json(result.to_json())
    assert type(again) is type(result)
    assert again.to_json() == result.to_json()
    assert str(again).splitlines()[0] == str(result).splitlines()[0]
    assert again.records() == result.records()


def plain(value):
    if isinstance(value, dict):
        return all(type(key) is str and plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(plain, value))
    return value is None or type(value) in (bool, int, float, str)


def test_dict__is_of_plain_types_that_json_writes(result):
    assert plain(result.to_dict())
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False)) == result.to_dict()


def swapped(value):
    """A value of another type."""
    return {"not": "it"} if isinstance(value, list | str) else [["not"], "it"]


def test_json__is_read_with_checked_types(result):
    data = result.to_dict()
    for field in set(data) - {"result", "study"}:
        if type(result).__name__ == "ScalingStudy":
            continue  # a run has any settings
        wrong = json.dumps({**data, field: swapped(data[field])})
        with pytest.raises(InvalidArgumentError, match=f"JSON of a {type(result).__name__}, got"):
            type(result).from_json(wrong)
    with pytest.raises(InvalidArgumentError, match="has the fields"):
        type(result).from_json(json.dumps({**data, "another": 1}))
    with pytest.raises(InvalidArgumentError, match="of another class"):
        type(result).from_json(json.dumps({**data, "result": "Another"}))


def test_json__says_which_field_is_wrong():
    data = {**made("one kernel").to_dict(), "pvalue": "small"}
    with pytest.raises(InvalidArgumentError, match="pvalue must be float, got 'small'"):
        dhsic.IndependenceTestResult.from_json(json.dumps(data))


def test_pickle__and_copies_are_the_same_result(result):
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is type(result)
    assert again.to_json() == result.to_json()
    for field in dataclasses.fields(again):
        value = getattr(again, field.name)
        if isinstance(value, np.ndarray):
            assert not value.flags.writeable
    assert copy.copy(result).to_json() == copy.deepcopy(result).to_json() == result.to_json()


class Tags(HTMLParser):
    """Whether every element is closed, by its own end."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html__has_a_style_of_its_own_that_touches_nothing_else(result):
    page = result._repr_html_()
    tags = Tags(page)
    assert tags.open == []
    assert tags.seen[:3] == ["div", "style", "table"]
    style = page.split("<style>")[1].split("</style>")[0]
    selectors = re.findall(r"([^{}]+)\{", re.sub(r"@media[^{]*\{", "", style))
    assert selectors
    for each in ",".join(selectors).replace("(th,td)", "()").split(","):
        assert each.strip().startswith(".dhsic-result")
    assert not re.search(r"#[0-9a-f]{3,6}\b|: ?(black|white)", style)  # colours of the page
    for label, _ in result.summary():
        assert label in html.unescape(page)


def test_pandas__has_the_records(name, result):
    frame = result.to_pandas()
    assert list(frame.columns) == list(result.records()[0])
    assert len(frame) == len(result.records())
    if name not in SEVERAL:
        assert len(frame) == ROWS.get(name, 1)
    assert all(re.fullmatch(r"\w.*", column) for column in frame.columns)


def test_pandas__says_what_to_install(result, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'dhsic\[tables\]'"):
        result.to_pandas()


def test_table__has_texts_of_the_records(result):
    header, rows = result.table()
    assert len(rows) == len(result.records())
    assert {len(row) for row in rows} == {len(header)}
    assert len(result.table(1)[1]) == 1


def test_plot__is_on_the_axes_that_are_given(result):
    if isinstance(result, DependenceEstimate):
        assert not hasattr(result, "plot")  # of one number
        return
    _, ax = plt.subplots()
    assert result.plot(ax) is ax
    assert ax.lines or ax.patches or ax.collections or ax.images
    assert result.plot() is not ax


def test_report__is_one_page_with_the_facts(result, tmp_path):
    result.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    Tags(re.sub(r"<(meta|link|img)[^>]*>|<!doctype html>", "", page))
    found = result.findings(0.05, "bh")
    for label, _ in result.summary():
        assert f'<th scope="row">{label}</th>' in page.replace("&gt;", ">")
    assert page.count("data:image/svg+xml") == len(found.sketches)
    assert page.count('<table class="sortable"') >= len(found.tables)
    assert "How to get it again" in page


def test_report__takes_the_level_the_control_and_the_run(tmp_path):
    from dhsic.report import Run

    path = tmp_path / "report.html"
    made("independence").report(path, alpha=1e-9, run=Run(command="dhsic test here"))
    assert "not rejected at level 1e-09" in path.read_text()
    assert "dhsic test here" in path.read_text()
    made("ranking").report(path, control="holm")
    assert "any error (Holm)</" in path.read_text().split("<main>")[0]


def test_map__that_came_back_has_no_rows():
    again = pickle.loads(pickle.dumps(made("flat map")))
    assert "not kept" in dict(again.summary())["map"]
    for read in (lambda: again.maps, lambda: again.samples, again.points):
        with pytest.raises(InvalidArgumentError, match=r"call dhsic\.sensitivity_map again"):
            read()
    assert copy.copy(made("flat map")).samples.shape == (N,)
    ax = again.plot()
    assert ax.patches
    plt.close("all")


def test_plan__that_came_back_tells_the_same():
    plan = made("plan")
    again = pickle.loads(pickle.dumps(plan))
    assert str(again) == str(plan)
    assert again.peak_bytes == plan.peak_bytes
    far = dataclasses.replace(plan, runtime=dataclasses.replace(plan.runtime, client=object()))
    again = type(plan).from_json(far.to_json())
    assert str(again) == str(far)
    assert again.runtime.client == "a client"


def test_arrays__of_infinite_numbers_come_back():
    curve = made("roc")
    assert curve.to_dict()["thresholds"][0] == "Infinity"
    np.testing.assert_array_equal(
        type(curve).from_json(curve.to_json()).thresholds, curve.thresholds
    )
    assert curve.thresholds[0] == np.inf


def test_matrix__tells_pairs_by_their_names():
    matrix = made("matrix")
    first = matrix.to_pandas().iloc[0]
    i, j = (matrix.names.index(first[key]) for key in ("first", "second"))
    assert first["hsic"] == matrix.hsic[i, j]
    assert first["pvalue"] == matrix.pvalues[i, j] == matrix.pvalues[np.triu_indices(3, 1)].min()
    assert first["pvalue_holm"] == matrix.adjusted[i, j]


def test_pandas__of_tests_are_rows_of_one_table():
    import pandas as pd

    tests = [made(name).to_pandas() for name in ("independence", "one kernel", "fitted law")]
    frame = pd.concat(tests, ignore_index=True)
    assert list(frame["pvalue"]) == [
        made(name).pvalue for name in ("independence", "one kernel", "fitted law")
    ]
    assert frame["combinations"].tolist() == [len(made("independence").grid.combinations), 1, 1]
    assert frame["score"].isna().tolist() == [False, True, True]


def test_bars__are_the_numbers():
    found = made("selection")
    ax = found.plot()
    assert [bar.get_width() for bar in ax.patches] == list(found.scores)
    assert [text.get_text() for text in ax.get_yticklabels()] == list(found.names)
    many = made("spectrum").plot()
    assert len(many.patches) == 40
    assert many.get_xlabel() == f"eigenvalues, 40 of {N}"
    plt.close("all")


@pytest.mark.parametrize(
    ("name", "title", "lead"),
    [
        ("two samples", "Do x1 and x2 have one distribution?", "One distribution "),
        (
            "independence",
            "Are x1 and x2 independent?",
            "Independence rejected at level 0.05 (p &lt;",
        ),
        (
            "of residuals",
            "Are the residuals of x and y independent?",
            "Independence of residuals ",
        ),
        (
            "conditional",
            "Are x and y conditionally independent?",
            "Conditional independence rejected",
        ),
        ("interaction", "Does the distribution of x1, x2 and x3 factorise?", "Factorisation "),
        ("directions", "Causal directions", "directions: 1 forward, "),
        ("dags", "DAG scores", "best: "),
    ],
)
def test_report__asks_and_then_tells(name, title, lead, tmp_path):
    made(name).report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert f"<h1>{title}</h1>" in page
    assert f'<p class="lead">{lead}' in page


def test_floor__of_pairs_and_features_is_told():
    from dhsic.results import floor_text

    matrix, ranking = made("matrix"), made("ranking")
    count = ranking.n_resamples
    assert count == 1039  # all shifts of 13 orders of 80 rows, but for the data themselves
    assert f"p <= {1 / 1040:.4g} ({floor_text(1039)})" in dict(matrix.summary())["strongest"]
    least = sum(f.pvalue == pytest.approx(1 / 1040) for f in ranking.features)
    assert least == 1
    assert dict(ranking.summary())["p-values"] == f"1 feature has {floor_text(count)}"
    above = dataclasses.replace(ranking, n_resamples=count + 1)
    assert "p-values" not in dict(above.summary())
    fitted = dhsic.dependence_matrix(X, Y, null="spectral", rng=0)
    assert "smallest" not in dict(fitted.summary())["strongest"]
    far = dhsic.dependence_matrix(X, Z, rng=0)
    assert "by itself" in dict(far.summary())["strongest"]


def test_witness__draws_the_function_that_is_asked_for():
    found = made("witness")
    lines = {of: found.plot(of=of).lines[1].get_ydata() for of in ("first", "second")}
    assert lines["first"].shape == lines["second"].shape
    assert not np.allclose(lines["first"], lines["second"])
    assert found.plot(of="second").get_xlabel() == "second variable"
    with pytest.raises(InvalidArgumentError, match="of must be one of 'first', 'second'"):
        found.plot(of="third")
    plt.close("all")


@pytest.mark.parametrize("wrong", ["0.5", True, [0.5], None, {"a": 1}])
def test_json__of_a_number_is_no_text_and_no_list(wrong):
    data = {**made("one kernel").to_dict(), "seconds": wrong}
    with pytest.raises(InvalidArgumentError, match="seconds must be float, got"):
        dhsic.IndependenceTestResult.from_json(json.dumps(data))
    whole = json.dumps({**data, "seconds": 2})
    assert dhsic.IndependenceTestResult.from_json(whole).seconds == 2.0
