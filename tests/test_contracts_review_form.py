"""The review form in a real browser: no network, usable by keyboard, keeps answers, and what it saves can be imported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from review_support import Command, export, read_csv, take

from tasks_lib.contracts.release import Release
from tasks_lib.contracts.review import assignments, imports


@pytest.fixture
def review(dsabench: Command, embedded: Path, tmp_path: Path) -> Path:
    export(dsabench, embedded, tmp_path / "review", "--reviewers", "1", "--double-share", "0")
    return tmp_path / "review"


@pytest.fixture
def noise() -> list[str]:
    return []


@pytest.fixture
def page(browser: Browser, noise: list[str]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1000, "height": 800}, accept_downloads=True)
    opened = context.new_page()
    opened.on("console", lambda message: noise.append(f"console: {message.text}"))
    opened.on("pageerror", lambda error: noise.append(f"error: {error}"))
    opened.on("request", lambda request: noise.append(f"request: {request.url}"))
    yield opened
    context.close()


def choose(page: Page, legend: str, option: str) -> None:
    page.get_by_role("group", name=legend).get_by_label(option, exact=True).check()


def download(page: Page, folder: Path) -> Path:
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download answers").click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def test_one_item_from_form_to_import_in_both_passes(
    dsabench: Command, embedded: Path, review: Path, page: Page, noise: list[str], tmp_path: Path
) -> None:
    address = (review / "reviewer-1/pass1.html").as_uri()
    page.goto(address)
    page.get_by_label("These answers are given by").select_option("scripted")
    item = read_csv(review / "reviewer-1/pass1.csv")[0]
    assert page.locator(".request").inner_text() == item["request"]
    choose(page, "Would a person write this request?", "awkward")
    choose(page, "Does it say all that is needed to answer it?", "complete")
    page.get_by_role("searchbox").fill(item["candidates"].split()[1])
    assert page.locator(".candidate:visible").count() == 2  # the one searched for, and "none"
    page.locator(f"input[value={item['candidates'].split()[1]}]").check()
    choose(page, "Is that the only smallest set?", "several")
    choose(page, "What does the request ask for?", "parallel")
    assert "0 of" in page.get_by_role("status").inner_text()
    choose(page, "How sure are you?", "low")
    page.get_by_label("Notes (may stay empty)").fill('said "so", once')
    assert "1 of" in page.get_by_role("status").inner_text()
    page.reload()  # nothing is lost
    assert "1 of" in page.get_by_role("status").inner_text()
    saved = download(page, tmp_path)
    assert saved.name == "reviewer-1-pass1.json"
    assert {n for n in noise if "blob:" not in n} == {f"request: {address}"}

    assert "--close" in take(dsabench, embedded, review, saved).json["error"]
    assert take(dsabench, embedded, review, saved, close=True).code == 0
    reviews = imports.saved(review)
    assert dict(zip(reviews["question"], reviews["answer"], strict=True)) == {
        "naturalness": "awkward",
        "completeness": "complete",
        "minimum_sources": item["candidates"].split()[1],
        "uniqueness": "several",
        "behavior": "parallel",
        "confidence": "low",
        "notes": 'said "so", once',
    }
    assert set(reviews["item"]) == {item["item"]}
    assert set(reviews["by"]) == {"scripted"}

    page.goto((review / "reviewer-1/pass2.html").as_uri())
    page.get_by_label("These answers are given by").select_option("scripted")
    release = Release.load(embedded)
    task = next(a.task_id for a in assignments.load(review).assignments if a.item == item["item"])
    units = release.contracts[task].unit_ids
    assert page.locator(".unit .code").all_inner_texts() == [release.units[u].sql for u in units]
    for at in range(1, len(units) + 1):
        choose(page, f"Unit {at}: Does the request keep the unit's question?", "no" if at == 1 else "yes")
        choose(page, f"Unit {at}: Do SQL and database fit the unit's question?", "right")
    choose(page, "Do the required sources answer the request?", "valid")
    choose(page, "Are they the only set that does?", "unique")
    choose(page, "Are behavior, dependencies and branches right?", "right")
    choose(page, "The task as a whole", "repairable")
    choose(page, "How bad is its worst defect?", "minor")
    said = take(dsabench, embedded, review, download(page, tmp_path))
    assert said.code == 0, said
    answers = imports.saved(review)
    kept = answers.filter(answers["question"] == "preserved")["answer"].to_list()
    assert kept == [" ".join(["no", *["yes"] * (len(units) - 1)])]
    assert not [n for n in noise if n.startswith(("error", "console"))]


def test_the_form_works_by_keyboard_and_takes_up_a_saved_file(
    browser: Browser, review: Path, page: Page, tmp_path: Path
) -> None:
    page.goto((review / "reviewer-1/pass1.html").as_uri())
    page.get_by_role("group", name="Would a person write this request?").get_by_label("natural", exact=True).focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.get_by_role("button", name="Next", exact=True).focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "title"
    assert page.locator("#title").inner_text().startswith("Item 2 of")
    file = download(page, tmp_path)
    first = json.loads(file.read_text("utf-8"))["rows"][0]
    assert (first["naturalness"], first["completeness"]) == ("awkward", "complete")

    fresh = browser.new_context().new_page()
    fresh.goto((review / "reviewer-1/pass1.html").as_uri())
    fresh.get_by_label("Continue from a file").set_input_files(file)
    fresh.get_by_text("Continued from reviewer-1-pass1.json.").wait_for()
    group = fresh.get_by_role("group", name="Would a person write this request?")
    assert group.get_by_label("awkward", exact=True).is_checked()
    (tmp_path / "other.json").write_text(json.dumps({"packet": "packet_0", "rows": []}), "utf-8")
    fresh.get_by_label("Continue from a file").set_input_files(tmp_path / "other.json")
    fresh.get_by_text("other.json cannot be used: it is of another packet.").wait_for()
    fresh.context.close()


def test_nothing_is_wider_than_a_small_window(review: Path, page: Page) -> None:
    page.set_viewport_size({"width": 380, "height": 800})
    page.goto((review / "reviewer-1/pass1.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 380
