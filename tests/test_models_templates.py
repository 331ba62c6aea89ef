"""Templates: strict variables, digest of the file, fixed line rules, clear errors."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tasks_lib.models.templates import Prompt, TemplateError, render


def _file(folder: Path, text: str) -> Path:
    path = folder / "one.md.j2"
    path.write_text(text, "utf-8")
    return path


def test_text_and_digest(tmp_path: Path) -> None:
    path = _file(tmp_path, "# Task: {{ name }}\n{% for row in rows %}\n- {{ row }}\n{% endfor %}\n\n")
    prompt = render(path, name="a <b> & {{ c }}", rows=["x", "y"])
    assert prompt == Prompt("# Task: a <b> & {{ c }}\n- x\n- y", hashlib.sha256(path.read_bytes()).hexdigest())


def test_a_changed_file_is_seen(tmp_path: Path) -> None:
    before = render(_file(tmp_path, "one"))
    after = render(_file(tmp_path, "two"))
    assert (before.text, after.text) == ("one", "two")
    assert before.digest != after.digest


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{{ missing }}", "missing"),
        ("{{ a.missing }}", "missing"),
        ("{% if %}", "one.md.j2"),
        ("{% include 'x' %}", "one"),
    ],
)
def test_a_template_that_cannot_be_filled_is_an_error(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(TemplateError, match=named):
        render(_file(tmp_path, text), a={})


def test_a_missing_file_is_an_error_that_names_it() -> None:
    with pytest.raises(TemplateError, match="no/such/file"):
        render("tasks_lib/no/such/file.md.j2")
