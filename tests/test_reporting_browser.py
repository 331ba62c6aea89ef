"""The results page in a real browser: no error, no request, sorting by keyboard, nothing wider than the window."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from reporting_support import run_tables

from tasks_lib.reporting.page import write_page


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_page(run_tables(), tmp_path_factory.mktemp("report") / "page.html").as_uri()


@pytest.fixture
def noise() -> list[str]:
    return []


@pytest.fixture
def page(browser: Browser, address: str, noise: list[str]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.on("console", lambda message: noise.append(f"console: {message.text}"))
    opened.on("pageerror", lambda error: noise.append(f"error: {error}"))
    opened.on("request", lambda request: noise.append(f"request: {request.url}"))
    opened.goto(address)
    yield opened
    context.close()


def column(page: Page, place: int) -> list[float | None]:
    """Sort values of a column of the cell table, top to bottom; None for 0/0."""
    script = "([...document.querySelectorAll('#table-cells tbody tr')].map(r => r.cells[PLACE].dataset.v ?? null))"
    found: list[str | None] = page.evaluate(script.replace("PLACE", str(place)))
    return [None if v is None else float(v) for v in found]


def test_the_page_loads_itself_and_nothing_else(page: Page, address: str, noise: list[str]) -> None:
    page.wait_for_load_state("networkidle")
    assert noise == [f"request: {address}"]
    assert page.title() == "DSABench results, run-0a1b2c"


def test_sorting_by_keyboard(page: Page, noise: list[str]) -> None:
    button = page.get_by_role("table", name="Every cell of the factorial").get_by_role(
        "button", name="CEA-Graph", exact=True
    )
    head = button.locator("xpath=..")
    assert head.get_attribute("aria-sort") == "none"
    before = column(page, 11)
    button.focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    down = column(page, 11)
    some = [v for v in down if v is not None]
    assert some == sorted((v for v in before if v is not None), reverse=True)
    assert len(set(some)) > 5
    assert down[len(some) :] == [None] * 24
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "ascending"
    up = column(page, 11)
    assert up[: len(some)] == sorted(some)
    assert up[len(some) :] == [None] * 24
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "none"
    assert page.locator("#table-cells th[aria-sort=descending]").inner_text().startswith("CEA-Set")
    assert page.locator("#table-cells tbody tr").count() == 144
    assert not [n for n in noise if not n.startswith("request: file:")]


def test_a_word_column_sorts_from_a_to_z_first(page: Page) -> None:
    page.locator("#table-cells").get_by_role("button", name="Router", exact=True).press("Enter")
    words = page.locator("#table-cells tbody tr td:nth-child(2)").all_inner_texts()
    assert words == sorted(words)
    assert words[0] == "direct"


def test_the_first_tab_skips_to_the_results(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash + ' ' + document.activeElement.id") == "#main main"


@pytest.mark.parametrize("width", [1280, 380])
def test_nothing_is_wider_than_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    box = "document.querySelector('.scroll:has(#table-cells)')"
    assert page.evaluate(f"{box}.scrollWidth > {box}.clientWidth")
    assert page.evaluate(f"{box}.tabIndex") == 0
    assert page.evaluate("document.querySelector('.scroll:has(#table-tasks)').tabIndex") == (-1 if width == 1280 else 0)


def test_dark_mode_recolours_page_and_figures(browser: Browser, address: str) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
        opened = context.new_page()
        opened.goto(address)
        body = opened.evaluate("getComputedStyle(document.body).backgroundColor")
        text = opened.evaluate("getComputedStyle(document.querySelector('#fig-modes svg text')).fill")
        seen[scheme] = (body, text)
        context.close()
    assert seen["light"][0] == "rgb(255, 255, 255)"
    assert all(light != dark for light, dark in zip(seen["light"], seen["dark"], strict=True))
