"""A report in a browser: quiet, alone, and sortable."""

import os
import shutil
from dataclasses import replace

import pytest

from dhsic.report import write_report
from tests.report.cases import EVIL, RUN, independence, ranked

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright, of the extra `test`, is not installed"
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium"),
]


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
        write_report(result, path, run=replace(RUN, data=EVIL[0]))
        page.goto(path.as_uri())
        return page

    yield open_report
    page.wait_for_load_state()
    page.close()
    assert heard == []
    assert {url for url in asked if not url.startswith("data:")} == {path.as_uri()}


def test_table__is_sorted_by_a_click_on_its_head_or_by_keyboard(visit):
    page = visit(ranked(count=12))

    def column(number):
        cells = page.locator(f"table[aria-label='Features'] td:nth-child({number + 1})")
        return cells.all_inner_texts()

    def click(number):
        head = page.locator("table[aria-label='Features'] thead th").nth(number)
        head.locator("button").click()
        return head.get_attribute("aria-sort")

    for number in (2, 4):  # HSIC and p-value
        numbers = sorted(map(float, column(number)))
        assert click(number) == "ascending"
        assert list(map(float, column(number))) == numbers
        assert click(number) == "descending"
        assert list(map(float, column(number))) == numbers[::-1]
    assert click(1) == "ascending"
    assert column(1) == [f"feature {k}" for k in range(12)]
    assert page.locator("th[aria-sort]").count() == 1
    page = visit(ranked())
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("th[aria-sort='ascending']").count() == 1


@pytest.mark.parametrize("make", [lambda: independence(EVIL), lambda: ranked(EVIL, len(EVIL))])
def test_names__do_not_become_scripts_and_fit_the_window(visit, make):
    page = visit(make())
    assert page.evaluate("window.broken") is None
    assert EVIL[0] in page.title() + page.inner_text("main")
    assert EVIL[2] in page.inner_text("main")
    for width in (1000, 400):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
