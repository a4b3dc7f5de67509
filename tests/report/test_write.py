"""What a report says, and that names of the data stay text."""

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from dhsic import analysis, dependence_matrix
from dhsic.errors import DataError, InvalidArgumentError, MissingDependencyError
from dhsic.kernels import Candidates, Grid
from dhsic.report import Run, check_report, write_report
from dhsic.results import kernel_text
from tests.report.cases import EVIL, independence, mapped, ranked, run


class Page(HTMLParser):
    """Elements with their attributes, and the text of every table cell."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self.tables, self._inside = [], [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.elements.append((tag, found))
        self._inside.append(tag)
        if tag == "table":
            self._rows = self.tables.setdefault(found.get("aria-label", "facts"), [])
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag):
        self._inside.pop()

    def handle_data(self, data):
        if "td" in self._inside or "th" in self._inside:
            self._rows[-1][-1] += data
        if self._inside and self._inside[-1] not in ("script", "style"):
            self.text.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def facts(self):
        """Of all sections; the first has the last word."""
        return {row[0]: row[1] for row in reversed(self.tables["facts"])}

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))


VOID = re.compile(r"<(meta|link|img)([^>]*)>")


def read(result, tmp_path, **options):
    path = tmp_path / "report.html"
    write_report(result, path, **options)
    text = path.read_text(encoding="utf-8")
    return Page(VOID.sub(r"<\1\2/>", text)), text


def test_report__of_a_test_has_all_that_was_found_and_used(tmp_path):
    result = independence()
    page, text = read(result, tmp_path, run=run())
    assert page.facts.items() >= dict(result.summary()).items()
    said = " ".join(page.text)
    for fact in (
        "Are height and weight independent?",
        "Independence rejected at level 0.05",
        f"(p <= {result.pvalue:.4g})",
        "data x",
        "dhsic test x",
        "print('x')",
        "threads x",
        f"numpy {np.__version__}",
    ):
        assert fact in said
    assert page.tables["Variables"][1:] == [
        [v.name, str(v.columns), kernel_text(v.kernel)] for v in result.variables
    ]
    assert page.facts["seed"] == "0"
    assert page.facts["dhsic"] == result.version
    names = [row[0] for row in page.tables["Passes over the data"][1:]]
    assert names == [done.name for done in result.passes]
    assert page.tables["Memory"][1:] == [
        ["a x", "200.0 MiB", "100.0 MiB", "50"],
        ["other", "1.0 MiB", "not known", ""],
    ]
    assert text.count("data:image/svg+xml;base64,") == 2  # the null and the evidence


def test_report__lists_the_kernels_tried(tmp_path):
    grid = Grid((Candidates("gaussian", (0.5, 1)), Candidates("gaussian", (1,))), combine="all")
    result = independence(kernels=grid)
    page, _ = read(result, tmp_path)
    header, *rows = page.tables["Kernels tried"]
    assert header[1:3] == ["kernel of height", "kernel of weight"]
    assert [float(row[-2]) for row in rows] == [
        pytest.approx(c.pvalue, rel=1e-3) for c in result.grid.combinations
    ]
    roles = {role: k for k, row in enumerate(rows) for role in row[-1].split(", ") if role}
    assert roles == {"reference": result.grid.reference, "strongest": result.grid.strongest}
    assert "Kernels tried" not in read(independence(kernels="gaussian"), tmp_path)[0].tables


def test_report__decides_at_the_level(tmp_path):
    page, _ = read(independence(null="permutation"), tmp_path, alpha=0.015)
    assert "50 replicates never can" in " ".join(page.text)
    with pytest.raises(InvalidArgumentError, match="alpha must be"):
        write_report(independence(), tmp_path / "no.html", alpha=2.0)


def test_report__of_features_has_landmarks_or_frequencies(tmp_path):
    page, _ = read(independence(estimator="rff-hsic", kernels="gaussian"), tmp_path)
    assert "cos-sin" in page.facts["features"]
    page, _ = read(
        independence(estimator="v-hsic", kernels="gaussian", null="gamma", n_resamples=None),
        tmp_path,
    )
    assert "landmarks" not in page.facts
    assert "peak of memory was not measured" in " ".join(page.text)


@pytest.mark.parametrize("make", [independence, ranked])
def test_report__needs_nothing_from_outside(make, tmp_path):
    page, text = read(make(), tmp_path, run=run())
    sources = [a[k] for _, a in page.elements for k in ("src", "href", "srcset") if k in a]
    assert sources
    assert all(source.startswith("data:") for source in sources)
    assert "@import" not in text
    assert "url(" not in text
    assert "default-src 'none'" in page.of("meta")[1]["content"]


@pytest.mark.parametrize(
    ("make", "pictures"),
    [
        (lambda: independence(EVIL), 2),
        (lambda: ranked(EVIL, len(EVIL)), 1),
        (lambda: mapped(2, 1, 1, 1, 1, names=EVIL), 1),
    ],
)
def test_report__shows_names_as_text(make, pictures, tmp_path):
    page, text = read(make(), tmp_path, run=run(EVIL[0]))
    assert len(page.of("script")) == 1
    assert len(page.of("img")) == pictures
    assert page.of("b") == []
    assert "49" not in text.split("<main>")[0]
    said = " ".join(page.text)
    for name in EVIL:
        assert name.encode("utf-8", "backslashreplace").decode() in said
    assert 'onerror="' not in text


def test_report__of_a_target_with_such_a_name(tmp_path):
    page, _ = read(ranked(target=EVIL[0]), tmp_path)
    assert len(page.of("script")) == 1
    assert page.facts["target"].startswith(EVIL[0])


def test_ranking__has_a_row_a_feature_the_strongest_first(tmp_path):
    page, _ = read(ranked(), tmp_path, control="holm")
    header, *rows = page.tables["Features"]
    assert header[:5] == ["rank", "feature", "HSIC", "CKA", "p-value"]
    assert [row[1] for row in rows] == [f"feature {k}" for k in range(6)]
    holm = header.index("any error (Holm)")
    assert [float(row[holm]) for row in rows] == pytest.approx(
        [f.pvalue_holm for f in ranked().ranked()], rel=1e-3
    )
    assert [row[-1] for row in rows] == ["yes"] * 4 + [""] * 2
    said = " ".join(page.text)
    assert "4 of 6 features depend on year at level 0.05 by any error (Holm)" in said
    assert page.facts["target"] == "year (gaussian:4, length 0.5)"
    assert page.facts["features"] == "6, ranked by pvalue"
    stricter, _ = read(ranked(), tmp_path, alpha=1e-8, control="holm")
    assert "1 of 6 features depend" in " ".join(stricter.text)
    other, _ = read(ranked(), tmp_path, control="by")
    assert "5 of 6 features" in " ".join(other.text)
    with pytest.raises(InvalidArgumentError, match="control must be one of 'bh', 'by'"):
        write_report(ranked(), tmp_path / "no.html", control="fdr")


def test_ranking__by_sensitivity_shows_it_and_says_what_it_is(tmp_path):
    features = [replace(f, sensitivity=2.0**k) for k, f in enumerate(ranked(count=4).features)]
    features[0] = replace(features[0], constant=True)
    joint = ranked(features=tuple(features), by="sensitivity")
    page, _ = read(joint, tmp_path)
    plain, _ = read(ranked(count=4), tmp_path)
    header, *rows = page.tables["Features"]
    assert [row[header.index("sensitivity")] for row in rows] == ["8", "4", "2", "1"]
    assert rows[-1][1] == "feature 3 (constant)"
    assert "exploratory" in " ".join(page.text)
    assert "exploratory" not in " ".join(plain.text)
    assert "sensitivity" not in plain.tables["Features"][0]


def test_map__has_bars_of_every_wide_variable_and_a_row_a_column(tmp_path):
    result = mapped(3, 1)
    page, _ = read(result, tmp_path)
    header, *rows = page.tables["Columns"]
    assert header[:3] == ["variable", "column", "sensitivity"]
    order = [("x", str(j)) for j in result.top("x", 3)] + [("y", "y")]
    assert [(row[0], row[1]) for row in rows] == order
    assert float(rows[0][2]) == pytest.approx(result.features["x"].max(), rel=1e-3)
    assert sum(float(row[3]) for row in rows[:3]) == pytest.approx(1.0, abs=0.002)
    assert [image["alt"] for image in page.of("img")] == [
        "Bars of the columns of x by their sensitivity."
    ]
    assert f"most sensitive to column {order[0][1]} of x" in " ".join(page.text)
    assert page.facts["seed"] == "0"


def test_map__of_two_single_columns_has_their_points(tmp_path):
    page, _ = read(mapped(1, 1), tmp_path)
    (image,) = page.of("img")
    assert image["alt"].startswith("Rows of both variables")
    assert len(page.tables["Columns"]) == 3
    alone, _ = read(mapped(1, 1, wrt=["x"]), tmp_path)
    assert alone.of("img") == []


@pytest.mark.parametrize("result", [{}, None, 3.0])
def test_report__refuses_what_has_none(result, tmp_path):
    with pytest.raises(InvalidArgumentError, match=f"got a {type(result).__name__}: give"):
        write_report(result, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_report__is_whole_or_not_there(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(DataError, match="cannot write"):
        write_report(ranked(), tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    existing = tmp_path / "old.html"
    existing.write_text("old")
    write_report(ranked(), existing, run=Run())
    assert existing.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_report__says_what_to_install(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError) as caught:
        check_report()
    expected = f"A report needs {module}, which is not installed: pip install 'dhsic[report]'"
    assert str(caught.value) == expected


def test_report__imports_its_libraries_when_it_is_written():
    for path in (Path(__file__).parents[2] / "dhsic" / "report").glob("*.py"):
        lines = [
            line for line in path.read_text().splitlines() if line.startswith(("import", "from"))
        ]
        assert not re.search(r"\b(jinja2|markupsafe|matplotlib)\b", " ".join(lines))


def test_report__is_the_same_for_the_same_result(tmp_path):
    result = independence()
    first, second = (re.sub(r"Written [^.]*\.", "", read(result, tmp_path)[1]) for _ in range(2))
    assert first == second


def test_files_of_the_page__are_in_the_package():
    folder = Path(__file__).parents[2] / "dhsic" / "report"
    assert {path.name for path in folder.glob("page.*")} == {"page.html", "page.css", "page.js"}


def test_table__of_many_rows_has_the_first(tmp_path):
    few = analysis.CovarianceSpectrum(np.arange(10_000) + 1.0, 1.0)
    many = analysis.CovarianceSpectrum(np.arange(10_001) + 1.0, 1.0)
    assert len(read(few, tmp_path)[0].tables["Covariance spectrum"]) == 10_001
    name = "Covariance spectrum, the first 10,000 of 10,001"
    assert [row[1] for row in read(many, tmp_path)[0].tables[name]][1] == "1e+04"
    assert len(read(many, tmp_path)[0].tables[name]) == 10_001


def test_picture__of_many_marks_is_of_pixels(tmp_path):
    def sizes(m):
        one = 0.5 * (np.ones((m, m)) + np.eye(m))
        few = dependence_matrix(*np.random.default_rng(0).standard_normal((2, 50)), rng=0)
        names = tuple(map(str, range(m)))
        found = replace(few, names=names, hsic=one, cka=one, pvalues=np.ones((m, m)))
        return len(read(found, tmp_path)[0].of("img")[0]["src"])

    assert sizes(120) < sizes(90)
