"""A report in a browser: quiet, alone, and sortable."""

import io
import os
import re
import shutil

import numpy as np
import pytest
from matplotlib import image

from dhsic.report import write_report
from tests.report.cases import EVIL, independence, ranked, run

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright, of the extra `test`, is not installed"
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def browser():
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=root)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Open the report of a result; at the end, nothing was loaded and nothing complained."""
    heard, asked = [], []
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    path = tmp_path / "report.html"

    def open_report(result):
        write_report(result, path, run=run(EVIL[0]))
        page.goto(path.as_uri())
        return page

    yield open_report
    page.wait_for_load_state()
    page.close()
    assert heard == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]


def column(page, table, number):
    cells = page.locator(f"table[aria-label='{table}'] tbody tr td:nth-child({number + 1})")
    return cells.all_inner_texts()


def click(page, table, number):
    head = page.locator(f"table[aria-label='{table}'] thead th").nth(number)
    head.locator("button").click()
    return head.get_attribute("aria-sort")


def test_table__is_sorted_by_a_click_on_its_head(visit):
    page = visit(ranked(count=12))
    hsic = column(page, "Features", 2)
    assert [float(x) for x in hsic] == sorted(map(float, hsic), reverse=True)
    assert click(page, "Features", 2) == "ascending"
    assert column(page, "Features", 2) == hsic[::-1]
    assert click(page, "Features", 2) == "descending"
    assert column(page, "Features", 2) == hsic
    assert click(page, "Features", 1) == "ascending"
    assert column(page, "Features", 1) == [f"feature {k}" for k in range(12)]
    assert page.locator("th[aria-sort]").count() == 1
    pvalues = [float(x) for x in column(page, "Features", 4)]
    assert click(page, "Features", 4) == "ascending"
    assert [float(x) for x in column(page, "Features", 4)] == sorted(pvalues)


def test_head__is_reached_by_keyboard(visit):
    page = visit(ranked())
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("th[aria-sort='ascending']").count() == 1


@pytest.mark.parametrize("make", [independence, ranked])
def test_page__is_not_blank_and_shows_its_picture(visit, make):
    page = visit(make())
    sizes = "image => [image.complete, image.naturalWidth, image.clientWidth]"
    complete, natural, shown = page.locator("figure img").first.evaluate(sizes)
    assert complete
    assert natural > 300
    assert 300 < shown <= 1000
    for part in (page, page.locator("figure img").first):
        pixels = image.imread(io.BytesIO(part.screenshot()), format="png")[..., :3]
        assert 0.005 < np.mean(pixels.min(axis=2) < 0.9) < 0.8


@pytest.mark.parametrize("make", [lambda: independence(EVIL), lambda: ranked(EVIL, len(EVIL))])
def test_names__do_not_become_scripts(visit, make):
    page = visit(make())
    assert page.evaluate("window.broken") is None
    assert EVIL[0] in page.title() + page.inner_text("main")
    assert EVIL[2] in page.inner_text("main")


@pytest.mark.parametrize("width", [1000, 400])
def test_page__is_no_wider_than_the_window(visit, width):
    page = visit(ranked([f"{k} {'long' * 60}" for k in range(6)]))
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_page__is_dark_where_the_reader_asks_for_it(visit):
    page = visit(independence())
    colours = "() => ['color', 'backgroundColor'].map(x => getComputedStyle(document.body)[x])"
    light = page.evaluate(colours)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(colours)
    brightness = [sum(map(int, re.findall(r"\d+", one)[:3])) for one in (*light, *dark)]
    assert brightness[0] < 150 < 600 < brightness[1]
    assert brightness[2] > 600 > 150 > brightness[3]


@pytest.mark.parametrize("make", [independence, ranked, lambda: independence(EVIL)])
@pytest.mark.parametrize("width", [900, 360])
def test_html__takes_the_colours_of_the_page_and_its_width(browser, make, width):
    page = browser.new_page(viewport={"width": width, "height": 600})
    style = "color: rgb(1, 200, 3); background: rgb(4, 5, 6)"
    html = make()._repr_html_().encode("utf-8", "backslashreplace").decode()
    page.set_content(f"<body style='{style}'>{html}<p id='other'><b>x</b></p></body>")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cell = page.locator(".dhsic-result td").first
    assert cell.evaluate("x => getComputedStyle(x).color") == "rgb(1, 200, 3)"
    assert cell.evaluate("x => getComputedStyle(x).backgroundColor") == "rgba(0, 0, 0, 0)"
    above = cell.evaluate("x => x.previousElementSibling.getBoundingClientRect().bottom")
    assert (above <= cell.bounding_box()["y"] + 1) == (width == 360)
    page.close()
