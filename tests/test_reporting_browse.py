"""The private task browser in a real browser: graphs in words and shapes, filters, deep links, planted scripts that never run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browse_support import (
    EVIL,
    GOLD_RESULT,
    WRONG_RESULT,
    fill,
    interactive,
    interactive_chains,
    route,
    sequential,
    sequential_chains,
)
from playwright.sync_api import Browser, Page, expect

from tasks_lib.protocol.vocabulary import FailureStage
from tasks_lib.reporting.browser import MARKER, IndexRow, Pages, write_pages
from tasks_lib.reporting.browser_graphs import Edge, Node, Status, again, draw, figure, layers
from tasks_lib.reporting.browser_routes import route_drawing
from tasks_lib.reporting.browser_tasks import task_view
from tasks_lib.reporting.browser_texts import ROWS, Texts, table_of
from tasks_lib.reporting.browser_work import factor_words
from tasks_lib.store.ledgers import Ledger

ROUTERS = ("direct", "react", "hermes")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A browser of the two hand-made tasks."""
    out = tmp_path_factory.mktemp("browse")
    ledger = Ledger(f"sqlite:///{out / 'ledger.sqlite'}")
    fill(ledger)
    results = {GOLD_RESULT.digest: 1, WRONG_RESULT.digest: 20}
    texts = Texts(ledger, ["call", "gone"], ["right", "wrong", "broken"], results)
    ledger.close()
    made = [
        (gold, chains) for gold, chains in ((interactive(), interactive_chains()), (sequential(), sequential_chains()))
    ]
    views = ((task_view(gold, chains, texts), chains) for gold, chains in made)
    assert write_pages(out / "b", Pages("run-1", "small"), views, ["task_int", "task_seq"], ["mine"], ROUTERS) == 2
    return out / "b"


@pytest.fixture
def noise() -> list[str]:
    return []


@pytest.fixture
def page(browser: Browser, noise: list[str]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.on("console", lambda message: noise.append(f"console: {message.text}"))
    opened.on("pageerror", lambda error: noise.append(f"error: {error}"))
    opened.on("request", lambda request: noise.append(f"request: {request.url}"))
    yield opened
    context.close()


def address(folder: Path, task: str, part: str = "") -> str:
    return (folder / "tasks" / f"{task}.html").as_uri() + part


def test_every_page_says_private_and_loads_nothing_else(folder: Path, page: Page, noise: list[str]) -> None:
    assert "never" in (folder / MARKER).read_text() or "nothing" in (folder / MARKER).read_text()
    for place in [(folder / "index.html").as_uri(), address(folder, "task_seq"), address(folder, "task_int")]:
        noise.clear()
        page.goto(place)
        assert page.title().startswith("PRIVATE")
        assert page.get_by_role("note").first.inner_text().startswith("PRIVATE.")
        assert noise == [f"request: {place}"]
        assert page.evaluate("[...document.querySelectorAll('[style], [onclick], [onerror]')].length") == 0


def test_planted_scripts_are_text(folder: Path, page: Page) -> None:
    """In request, plan, reply, arguments, SQL, error, column name and value: shown as written, run nowhere."""
    for task in ("task_seq", "task_int"):
        page.goto(address(folder, task))
        html = (folder / "tasks" / f"{task}.html").read_text("utf-8")
        assert EVIL not in html
        assert page.evaluate("window.planted") is None
        assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
    page.goto(address(folder, "task_seq"))
    page.get_by_role("button", name="Open all").click()
    assert page.evaluate("document.querySelector('blockquote').textContent") == f"Which ship? {EVIL}"
    for place in (".turns pre", ".result td", ".result th", "article pre", ".facts dd"):
        assert any("window.planted" in t for t in page.locator(place).all_text_contents()), place
    page.goto(address(folder, "task_int"))
    assert any("no such column <script>" in t for t in page.locator("article .note").all_text_contents())


def test_a_route_stands_beside_gold_in_words_and_shapes(folder: Path, page: Page) -> None:
    page.goto(address(folder, "task_seq", "#chain-1"))
    assert page.locator("#chain-1").evaluate("box => box.open")
    drawn = page.locator("#chain-1").get_by_role("img")
    assert drawn.nth(0).get_attribute("aria-label") == (
        "Gold contract. Databases: harbour: required, unit 1; fleet: required, unit 2. Edges: harbour to fleet: required."
    )
    assert drawn.nth(1).get_attribute("aria-label") == (
        "Initial route. Databases: harbour: right; museum: extra, not required; fleet: missing. "
        "Edges: museum to harbour: extra; harbour to fleet: missing."
    )
    shapes = drawn.nth(1).evaluate(
        "svg => [...svg.querySelectorAll('.box')].map(b => b.tagName + ' ' + b.getAttribute('class'))"
    )
    assert sorted(shapes) == ["polygon box extra", "rect box missing", "rect box right"]
    assert page.locator("#chain-1 h3").first.inner_text() == "Initial route: set wrong"
    assert drawn.nth(0).bounding_box()["width"] > 300  # type: ignore[index]
    page.goto(address(folder, "task_seq", "#chain-2"))
    assert page.locator("#chain-2 h3").first.inner_text() == "Initial route: set right, label right, edges right"


def test_local_work_leads_to_its_sql_and_rows(folder: Path, page: Page) -> None:
    page.goto(address(folder, "task_seq", "#chain-1"))
    table = page.locator("#chain-1").get_by_role("region", name="Verdicts of local SQL, mine, direct")
    link = table.get_by_role("link", name="mismatch, SQL 2").first
    assert table.get_by_text("not selected").count() == 6
    link.click()
    article = page.locator("#a-1-2")
    assert "SELECT 3" in article.inner_text()
    assert article.locator(".result tbody tr").count() == ROWS
    assert "12 more rows" in article.inner_text()
    assert "Its result is gold's, to the byte." in page.locator("#a-1-1").inner_text()


def test_an_interactive_task_is_told_by_branch(folder: Path, page: Page) -> None:
    page.goto(address(folder, "task_int", "#chain-1"))
    chain = page.locator("#chain-1")
    heads = chain.locator("h3").all_inner_texts()
    assert heads[:2] == [
        "Initial route: set right for one branch, label right, edges right",
        "Route after the answer of branch b: set right, label right, edges right",
    ]
    assert "released: The museum. (rule: canonical)" in chain.inner_text()
    cells = chain.get_by_role("region", name="How cells ended, mine, hermes")
    assert [r.split("\t")[0] for r in cells.locator("tbody tr").all_inner_texts()] == [
        "source execution error",
        "solved",
    ]


def test_chains_are_chosen_by_backend_and_router(folder: Path, page: Page) -> None:
    page.goto(address(folder, "task_seq"))
    page.get_by_label("Router", exact=True).select_option("react")
    assert page.locator("details.chain:visible").count() == 1
    assert page.get_by_role("status").inner_text() == "1 of 2 shown"


def visible(page: Page) -> list[str]:
    return page.locator("#table-tasks tbody tr:visible th").all_inner_texts()


def test_the_index_filters_sorts_and_keeps_the_view_in_its_address(folder: Path, page: Page) -> None:
    index = (folder / "index.html").as_uri()
    page.goto(index)
    assert visible(page) == ["task_int", "task_seq"]
    page.get_by_label("Failure stage", exact=True).select_option(label="under selection")
    assert visible(page) == ["task_seq"]
    expect(page.get_by_role("status")).to_have_text("1 of 2 tasks")
    assert page.locator("#task_seq td").nth(6).inner_text() == "50.0"
    page.get_by_label("Router", exact=True).select_option("react")
    assert visible(page) == []
    page.get_by_label("Failure stage", exact=True).select_option("")
    assert page.locator("#task_seq td").nth(6).inner_text() == "100.0"
    kept = page.url
    page.goto(kept.replace("router=1", "router=0") + "&text=which+SHIP")
    page.reload()
    assert visible(page) == ["task_seq"]
    assert page.locator("#task_seq td").nth(7).inner_text() == "under selection"
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_role("status")).to_have_text("2 tasks")
    page.get_by_role("button", name="Solved, percent").press("Enter")
    assert visible(page) == ["task_int", "task_seq"]
    page.get_by_role("link", name="task_seq").press("Enter")
    page.wait_for_url("**/tasks/task_seq.html")
    page.get_by_role("link", name="Previous task").press("Enter")
    page.wait_for_url("**/tasks/task_int.html")
    page.get_by_role("link", name="All tasks").press("Enter")
    page.wait_for_url("**/index.html")


@pytest.mark.parametrize("width", [1280, 380])
def test_nothing_is_wider_than_the_window(folder: Path, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for place in [
        (folder / "index.html").as_uri(),
        address(folder, "task_seq", "#chain-1"),
        address(folder, "task_int", "#chain-1"),
    ]:
        page.goto(place)
        assert page.evaluate("document.documentElement.scrollWidth") == width, place


def test_a_full_index_is_under_two_megabytes() -> None:
    stages = len(FailureStage)
    ends = {(b, r, s): 10 for b in range(4) for r in range(3) for s in range(0, stages, 2)}
    row = IndexRow("task_0123456789abcdef", "word " * 60, "livesqlbench", "exploratory", "medium", 4, 120, ends)
    assert len(Pages("run-1", "paper").index([row] * 815, ["b"] * 4, ROUTERS).encode()) < 2_000_000


def test_layers_follow_dependencies_and_break_cycles() -> None:
    assert layers(["c", "b", "a"], [("a", "b"), ("b", "c"), ("a", "c")]) == [["a"], ["b"], ["c"]]
    assert layers(["a", "b"], [("a", "b"), ("b", "a")]) == [["a"], ["b"]]
    assert layers([], []) == []
    nodes = [Node(k, k, Status.RIGHT, "right") for k in "ab"]
    both = draw(nodes, [Edge("a", "b", Status.MISSING), Edge("b", "a", Status.EXTRA), Edge("a", "z", Status.EXTRA)])
    assert both.body.count("<path") == 2
    assert both.words.endswith("Edges: a to b: missing; b to a: extra.")


@pytest.mark.parametrize("status", list(Status))
def test_a_drawing_escapes_every_name(status: Status) -> None:
    drawing = draw([Node("a", EVIL, status, EVIL)], [])
    for svg in (figure(drawing, EVIL), figure(drawing, EVIL, "g"), again(drawing, EVIL, "g")):
        assert "<script" not in svg
        assert "<img" not in svg


def test_an_initial_route_misses_nothing_once_it_serves_a_branch() -> None:
    gold = interactive()
    assert "missing" not in route_drawing(gold, route(["db_a"], "interactive", [])).words
    assert "museum: missing (either branch)" in route_drawing(gold, route(["db_b"], "interactive", [])).words
    assert "museum: missing" in route_drawing(gold, route(["db_a"], "interactive", [], "b")).words


def test_cells_that_are_a_product_are_told_by_factor() -> None:
    names = ("data_agent", "planner", "interaction", "query_mode")
    cells = [
        dict(zip(names, c, strict=True))
        for c in (("adapter", "llm", "never", "fused"), ("adapter", "llm", "once", "fused"))
    ]
    assert factor_words(cells) == "adapter × llm × fused"
    odd = dict(zip(names, ("text_to_sql", "llm", "once", "fused"), strict=True))
    assert factor_words([*cells, odd]).count(";") == 2


def test_a_result_is_read_no_further_than_it_is_shown() -> None:
    data = WRONG_RESULT.to_bytes()
    whole = b"\n".join(data.split(b"\n")[: ROWS + 1]) + b"\nnot a row"
    assert table_of(whole, 20) == table_of(data, 20)
