"""Every public result is drawn with labels, and its report holds its numbers and names as text."""

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib import pyplot as plt

import dhsic
from dhsic import analysis, causal
from dhsic.bench import scaling_study
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.kernels import Candidates, Grid
from dhsic.report import write_report
from tests.report.cases import EVIL, RUN, independence, mapped, ranked

X, Y, Z, MANY = np.random.default_rng(0).standard_normal((4, 120))
Y = X**2 + 0.5 * Y
KNOWN = analysis.CovarianceSpectrum(np.array([0.6, 0.3, 0.1]), supremum=1.0)
HERE = {"landmarks": [10, 20], "workers": [1], "scheduler": ["threads"]}


@cache
def directions():
    return causal.directions([(X, Y), (Y, X), (X, Z)], rng=0)


# A public call of every kind of result.
RESULTS = {
    "test": independence,
    "grid": lambda: dhsic.independence_test(X, Y, rng=0),
    "interaction": lambda: dhsic.interaction_test(X, Y, Z, rng=0),
    "two samples": lambda: dhsic.two_sample_test(X, Y, rng=0),
    "conditional": lambda: dhsic.conditional_independence_test(X, X + MANY, given=MANY, rng=0),
    "residuals": lambda: causal.residual_independence_test(X, Y, given=Z, rng=0),
    "matrix": lambda: dhsic.dependence_matrix(X, Y, Z, rng=0),
    "ranking": ranked,
    "selection": lambda: dhsic.select_features(np.c_[X, Z, MANY], Y, 2, rng=0),
    "map": lambda: mapped(3, 1),
    "witness": lambda: dhsic.witness_functions(X, Y, rng=0),
    "direction": lambda: causal.direction(X, Y, rng=0),
    "directions": directions,
    "graph": lambda: causal.DAG(("a", "b", "c"), ((), (0,), (0, 1))),
    "graphs": lambda: causal.score_dags(X, Y, Z, rng=0),
    "search": lambda: causal.search_dag(X, Y, Z, rng=0),
    "curve": lambda: directions().roc_curve(np.array([True, False, True])),
    "spectrum": lambda: KNOWN,
    "bound": lambda: analysis.mean_embedding_bound(10**6, 1000, 0.1, KNOWN),
    "plan": lambda: dhsic.plan(X, Y),
    "study": lambda: scaling_study(X, Y, vary=HERE, repeats=1, progress=None, kernels="gaussian"),
}


class Page(HTMLParser):
    """Elements with their attributes, the text, and that of every table's cells."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.said, self.tables, self.inside = [], [], {}, []
        self.feed(re.sub(r"<(meta|link|img)([^>]*)>", r"<\1\2/>", text))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside.append(tag)
        if tag == "table":
            self.rows = self.tables.setdefault(dict(attrs).get("aria-label", "facts"), [])
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        self.inside.pop()

    def handle_data(self, data):
        if {"td", "th"} & {*self.inside}:
            self.rows[-1][-1] += data
        if self.inside and self.inside[-1] not in ("script", "style"):
            self.said.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self):
        return " ".join(self.said)

    @property
    def facts(self):
        """Those of all sections; the first has the last word."""
        return {row[0]: row[1] for row in reversed(self.tables["facts"])}


@pytest.fixture
def read(tmp_path):
    def page(result, **options):
        write_report(result, tmp_path / "report.html", **options)
        return Page((tmp_path / "report.html").read_text(encoding="utf-8"))

    return page


# --- one table: every public result


@pytest.mark.parametrize("name", RESULTS)
def test_result__is_drawn_with_labels_and_reported_with_its_numbers(name, read):
    result = RESULTS[name]()
    ax = result.plot()
    shown = [*ax.lines, *ax.patches, *ax.collections, *ax.images]
    assert shown
    labels = {ax.get_xlabel(), ax.get_ylabel(), *(t.get_text() for t in ax.get_yticklabels())}
    assert (labels - {""}) or name in ("graph", "search"), "nodes have their names beside them"
    plt.close("all")
    page = read(result, run=RUN)
    facts = [[cell.split() for cell in row] for row in page.tables["facts"]]
    assert [row for row in result.summary() if [one.split() for one in row] not in facts] == []
    assert [image for image in page.of("img") if image["src"].startswith("data:image/svg+xml;")]
    sources = [a[k] for _, a in page.elements for k in ("src", "href", "srcset") if k in a]
    assert all(source.startswith("data:") for source in sources), "it needs nothing from outside"
    assert "default-src 'none'" in page.of("meta")[1]["content"]
    said = ["data <here>", "dhsic test x", "print('x')", "threads x"]
    assert [one for one in said if one not in page.text] == []


# --- what each kind says


def test_report__of_a_test_has_its_decision_parameters_passes_and_memory(read):
    result = independence()
    page = read(result, run=RUN)
    for fact in (
        "Are height and weight independent?",
        "Independence rejected at level 0.05",
        f"(p <= {result.pvalue:.4g})",
        f"numpy {np.__version__}",
    ):
        assert fact in page.text
    rows = page.tables["Variables"][1:]
    assert [row[:2] for row in rows] == [["height", "1"], ["weight", "1"]]
    assert (page.facts["seed"], page.facts["dhsic"]) == ("0", result.version)
    passes = page.tables["Passes over the data"][1:]
    assert [row[0] for row in passes] == [done.name for done in result.passes]
    assert page.tables["Memory"][1:] == [
        ["a <x>", "200.0 MiB", "100.0 MiB", "50"],
        ["other", "1.0 MiB", "not known", ""],
    ]
    assert "peak of memory was not measured" in read(result).text
    assert "50 replicates never can" in read(independence(null="permutation"), alpha=0.015).text


def test_report__lists_the_kernels_tried(read):
    grid = Grid((Candidates("gaussian", (0.5, 1)), Candidates("gaussian", (1,))), combine="all")
    result = independence(kernels=grid)
    header, *rows = read(result).tables["Kernels tried"]
    assert header[1:3] == ["kernel of height", "kernel of weight"]
    pvalues = [tried.pvalue for tried in result.grid.combinations]
    assert [float(row[-2]) for row in rows] == pytest.approx(pvalues, rel=1e-3)
    roles = {role: k for k, row in enumerate(rows) for role in row[-1].split(", ") if role}
    assert roles == {"reference": result.grid.reference, "strongest": result.grid.strongest}
    assert "Kernels tried" not in read(independence(kernels="gaussian")).tables


def test_ranking__has_a_row_a_feature_and_decides_by_the_control(read):
    result = ranked()
    page = read(result, control="holm")
    header, *rows = page.tables["Features"]
    assert header[:5] == ["rank", "feature", "HSIC", "CKA", "p-value"]
    assert [row[1] for row in rows] == [one.name for one in result.ranked()]
    holm = [float(row[header.index("any error (Holm)")]) for row in rows]
    assert holm == pytest.approx([one.pvalue_holm for one in result.ranked()], rel=1e-3)
    for control, alpha in (("holm", 0.05), ("holm", 0.01), ("by", 0.02)):
        chosen = result.rejected(alpha, control=control)
        told = read(result, control=control, alpha=alpha)
        assert f"{len(chosen)} of 6 features depend on year at level {alpha}" in told.text
        rows = told.tables["Features"][1:]
        assert {row[1] for row in rows if row[-1] == "yes"} == {*chosen}


# --- names, sizes, files


@pytest.mark.parametrize(
    "make",
    [
        lambda: independence(EVIL),
        lambda: ranked(EVIL, len(EVIL), target=EVIL[0]),
        lambda: mapped(2, 1, 1, 1, 1, names=EVIL),
    ],
)
def test_report__shows_names_as_text(make, read, tmp_path):
    page = read(make(), run=replace(RUN, data=EVIL[0], command=EVIL[1], python=EVIL[2]))
    assert len(page.of("script")) == 1
    assert page.of("b") == []
    assert [image for image in page.of("img") if not image["src"].startswith("data:")] == []
    for name in EVIL:
        assert name.encode("utf-8", "backslashreplace").decode() in page.text
    text = (tmp_path / "report.html").read_text()
    assert "49" not in text.split("<main>")[0], "a template of a name is no template"
    assert 'onerror="' not in text


def test_report__is_whole_or_not_there(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(DataError, match="cannot write"):
        write_report(independence(), tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    existing = tmp_path / "old.html"
    existing.write_text("old")
    write_report(independence(), existing)
    assert existing.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("result", "options", "words"),
    [
        ({}, {}, "got a dict: give"),
        (None, {}, "got a NoneType: give"),
        (KNOWN, {"alpha": 2.0}, "alpha must be"),
        (KNOWN, {"run": "x"}, r"run must be a dhsic\.report\.Run"),
        (ranked, {"control": "fdr"}, "control must be one of 'bh', 'by'"),
    ],
)
def test_report__refuses_and_writes_nothing(result, options, words, tmp_path):
    with pytest.raises(InvalidArgumentError, match=words):
        write_report(result() if callable(result) else result, tmp_path / "no.html", **options)
    assert not list(tmp_path.iterdir())
