"""Every public result is drawn with labels, and its report holds its numbers and names as text."""

import os
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib import pyplot as plt

import dhsic
from dhsic.errors import DataError
from dhsic.kernels import Candidates, Grid
from dhsic.report import MemoryUse, Run, write_report
from tests.test_results import MAKE, made

# Names that want to be more than text.
EVIL = [
    "<script>window.broken = 1</script>",
    "\"><img src=x onerror='window.broken = 2'>",
    "{{ 7 * 7 }} {% raise %} & ${x}",
    "two\nlines \\ and 'quotes' $\\frac{1}",
    "</title></style><b>ü 漢 \ud800",
]
RUN = Run(
    data="data <here>",
    command="dhsic test x",
    python="print('x')",
    ran_on="threads x",
    memory=[
        MemoryUse("a <x>", 200 * 2**20, 100 * 2**20),
        MemoryUse("other", 2**20, None),
        MemoryUse("large", 12_345_678 * 2**10, 2**20),
    ],
)


def independence(names=("height", "weight"), **options):
    x, y = np.random.default_rng(0).standard_normal((2, 200))
    variables = [x, x + 2 * y, *(x * y + k for k in range(len(names) - 2))]
    asked = {"names": names, "estimator": "nystrom-m", "n_resamples": 50, "rng": 0, **options}
    return dhsic.independence_test(*variables, **asked)


def ranked(names=None, count=6, target="year", **options):
    """A ranking of columns that depend less and less on the target."""
    rng = np.random.default_rng(1)
    year = rng.standard_normal(150)
    noise = np.geomspace(0.2, 50.0, count) * rng.standard_normal((150, count))
    labels = [f"feature {k}" for k in range(count)] if names is None else names
    found = dhsic.rank_features(year[:, None] + noise, year, names=labels, rng=0, **options)
    return replace(found, target=target)


def mapped(*dims, names=("x", "y"), **options):
    """A sensitivity map of variables of so many columns, of which the last of x matters."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, dims[0]))
    others = [np.sin(2 * x[:, -1:]) + 0.1 * rng.standard_normal((100, d)) for d in dims[1:]]
    estimator = "nystrom-m" if others[1:] else "rff-hsic"
    return dhsic.sensitivity_map(x, *others, names=names, estimator=estimator, rng=0, **options)


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


# Estimates of one number have no picture.
DRAWN = [name for name in MAKE if name not in ("estimate", "interval", "landmarks", "features")]


@pytest.mark.parametrize("name", DRAWN)
def test_result__is_drawn_with_labels_and_reported_with_its_numbers(name, read):
    result = made(name)
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
        ["a <x>", "200", "100", "50"],
        ["other", "1", "not known", ""],
        ["large", "12,056", "1", "0"],
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
    assert header[:5] == ["rank", "term", "estimate", "cka", "p value"]
    assert [row[1] for row in rows] == [one.name for one in result.ranked()]
    holm = [float(row[header.index("p holm")]) for row in rows]
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


# --- by night: a page in a browser is quiet, alone, and sortable


@pytest.mark.nightly
def test_page__is_quiet_alone_and_sortable_whatever_the_names(tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium: apt-get install chromium")
    path, heard, asked = tmp_path / "report.html", [], []
    write_report(ranked(EVIL, len(EVIL)), path, run=replace(RUN, data=EVIL[0]))
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as driver:
        page = driver.chromium.launch(executable_path=chromium, args=root).new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        assert page.evaluate("window.broken") is None
        assert EVIL[0] in page.inner_text("main")
        assert EVIL[2] in page.inner_text("main")
        for width in (1000, 400):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.locator("th[aria-sort='ascending']").count() == 1
        for number in (2, 4):  # HSIC and p-value
            head = page.locator("table[aria-label='Features'] thead th").nth(number)
            cells = page.locator(f"table[aria-label='Features'] td:nth-child({number + 1})")
            numbers = sorted(map(float, cells.all_inner_texts()))
            for order, expected in {"ascending": numbers, "descending": numbers[::-1]}.items():
                head.locator("button").click()
                assert head.get_attribute("aria-sort") == order
                assert list(map(float, cells.all_inner_texts())) == expected
        assert page.locator("th[aria-sort]").count() == 1
        page.locator("table[aria-label='Memory'] thead button").nth(2).click()
        cells = page.locator("table[aria-label='Memory'] td:nth-child(3)")
        assert cells.all_inner_texts() == ["1", "100", "not known"]
    assert heard == []
    assert {url for url in asked if not url.startswith("data:")} == {path.as_uri()}
