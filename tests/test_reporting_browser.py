"""The results page in a real browser: no error, no request, sorting and filtering by keyboard, nothing wider than the window."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from reporting_support import POLICY, run_tables

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
    button = page.locator("#table-cells").get_by_role("button", name="CEA-Graph", exact=True)
    head = button.locator("xpath=..")
    assert head.get_attribute("aria-sort") == "none"
    before = column(page, 13)
    button.focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    down = column(page, 13)
    some = [v for v in down if v is not None]
    assert some == sorted((v for v in before if v is not None), reverse=True)
    assert len(set(some)) > 5
    assert down[len(some) :] == [None] * 24
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "ascending"
    up = column(page, 13)
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


def count(page: Page) -> str:
    return str(page.locator(".filter[data-table=table-cells] output").inner_text())


def visible(page: Page) -> list[str]:
    """First three entries of the rows of the cell table that are shown."""
    script = """[...document.querySelectorAll('#table-cells tbody tr')].filter(r => r.checkVisibility())
        .map(r => [...r.cells].slice(0, 3).map(c => c.firstChild.data.trim()).join(' '))"""
    found: list[str] = page.evaluate(script)
    return found


def test_filtering_by_keyboard_is_counted_aloud(page: Page, noise: list[str]) -> None:
    group = page.get_by_role("group", name="Filter of the table: Every cell of the factorial")
    assert count(page) == "144 rows"
    assert group.locator("output").get_attribute("aria-live") == "polite"
    box = group.get_by_label("Rows with")
    box.focus()
    page.keyboard.type("HERMES adapter")
    assert count(page) == "24 of 144 rows"
    assert {row.split(" ", 1)[1] for row in visible(page)} == {"hermes adapter"}
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.labels[0].textContent").startswith("Backend")
    group.get_by_label("Backend").select_option(POLICY)
    assert count(page) == "12 of 144 rows"
    page.locator("#table-cells").get_by_role("button", name="RA-Set", exact=True).press("Enter")
    assert len(visible(page)) == 12
    group.get_by_label("Request mode").select_option("privileged")
    assert count(page) == "4 of 144 rows"
    box.fill("no such words")
    assert (count(page), visible(page)) == ("0 of 144 rows", [])
    group.get_by_role("button", name="Show all").press("Enter")
    assert count(page) == "144 rows"
    assert len(visible(page)) == 144
    assert page.evaluate("document.activeElement.type") == "search"
    assert not [n for n in noise if not n.startswith("request: file:")]


def test_every_control_has_a_name_and_needs_no_mouse(page: Page) -> None:
    named = "e => e.textContent.trim() || (e.labels && e.labels[0].textContent.trim())"
    assert all(page.eval_on_selector_all("button, input, select", f"es => es.map({named})"))
    assert page.eval_on_selector_all("[onclick], [oninput], [onchange], [onkeydown]", "es => es.length") == 0
    assert page.eval_on_selector_all("[tabindex]", "es => es.filter(e => e.tabIndex > 0).length") == 0
    assert page.locator("#table-board-backends thead th").nth(1).inner_text().startswith("Tier")


@pytest.mark.parametrize("width", [1280, 380])
def test_nothing_is_wider_than_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    wide = page.eval_on_selector_all(
        ".scroll", "bs => bs.map(b => [b.scrollWidth > b.clientWidth + 1, b.tabIndex, b.classList.contains('more')])"
    )
    assert all((tab == 0 and more) for scrolls, tab, more in wide if scrolls)
    assert any(scrolls for scrolls, _, _ in wide) or width == 1280
    assert page.evaluate("document.querySelector('.scroll:has(#table-tasks)').tabIndex") == (-1 if width == 1280 else 0)


def test_what_a_row_is_stays_in_sight_and_the_hint_goes_at_the_end(page: Page) -> None:
    page.set_viewport_size({"width": 380, "height": 900})
    box = page.locator(".scroll:has(#table-cells)")
    head = page.locator("#table-cells tbody tr:first-child > th")
    hint = page.locator(".scroll:has(#table-cells) + .hint")
    assert hint.is_visible()
    left = head.bounding_box()
    box.evaluate("b => { b.scrollLeft = b.scrollWidth; b.dispatchEvent(new Event('scroll')); }")
    assert head.bounding_box() == left
    assert not hint.is_visible()
    caption = page.locator("#t-cells").bounding_box()
    assert caption is not None
    assert caption["x"] >= 0
    assert caption["x"] + caption["width"] <= 380


def test_on_paper_every_table_is_whole(page: Page) -> None:
    page.emulate_media(media="print")
    hidden = "bs => bs.filter(b => getComputedStyle(b).overflowX !== 'visible').length"
    assert page.eval_on_selector_all(".scroll", hidden) == 0
    assert not page.locator("nav").is_visible()
    assert page.locator(".filter").first.is_visible() is False


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
