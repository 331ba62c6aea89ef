"""Keys (known fault P01): everything that matters is in, types stay apart, what has no key is an error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks_lib.protocol.records import RouteEdge
from tasks_lib.store import keys
from tasks_lib.store.keys import (
    KeyUnavailable,
    artifact_key,
    canonical_json,
    code_changed,
    code_digest,
    digest,
    keyed_digest,
)


@dataclass(frozen=True)
class Other:
    source: str
    target: str
    type: str = ""
    reason: str = ""


class Word(StrEnum):
    ONE = "one"


def test_types_that_look_alike_have_different_digests() -> None:
    values: list[Any] = [
        [1, 2], (1, 2), ["1", "2"], [1.0, 2], [True, 2], None, "", "null", 0, 0.0, False, b"", b"a", "a", float("inf"), float("nan"),
        Path("a"), {"a": 1}, [["a", 1]], RouteEdge("a", "b"), Other("a", "b"), {"source": "a", "target": "b"},
    ]  # fmt: skip
    assert len({digest(value) for value in values}) == len(values)


def test_equal_values_have_equal_digests() -> None:
    assert digest({"b": 1, "a": [1, "é"]}) == digest({"a": [1, "é"], "b": 1})
    assert digest(Word.ONE) == digest("one")
    assert canonical_json({"b": 1, "a": (2,)}) == '{"a":{"__tuple__":[2]},"b":1}'


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_a_copy_has_the_same_digest(value: Any) -> None:
    try:
        text = canonical_json(value).encode()
    except UnicodeEncodeError:
        return  # half surrogates: not storable text
    assert canonical_json(value).encode() == text


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (threading.Lock(), "value"),
        ({"task": {"lock": threading.Lock()}}, "value.task.lock"),
        ([{1: 2}], r"value\[0\]"),
        ({1, 2}, "set"),
        (object, "type"),
    ],
)
def test_what_has_no_canonical_form_is_an_error_that_names_the_place(value: Any, named: str) -> None:
    with pytest.raises(KeyUnavailable, match="cache_key_unavailable") as error:
        artifact_key("stage@1", {}, {"p": value}) if not isinstance(value, list) else digest(value)
    assert named.replace("\\", "").split(".")[-1] in str(error.value)


def test_stage_inputs_and_parameters_decide_the_key() -> None:
    base = artifact_key("routes@1", {"tasks": "d1"}, {"seed": 1})
    others = [
        artifact_key("routes@2", {"tasks": "d1"}, {"seed": 1}),
        artifact_key("asks@1", {"tasks": "d1"}, {"seed": 1}),
        artifact_key("routes@1", {"tasks": "d2"}, {"seed": 1}),
        artifact_key("routes@1", {"catalog": "d1"}, {"seed": 1}),
        artifact_key("routes@1", {"tasks": "d1"}, {"seed": 1.0}),
        artifact_key("routes@1", {"tasks": "d1"}, {"seed": 1, "more": None}),
    ]
    assert len({base, *others}) == 7
    assert base == artifact_key("routes@1", {"tasks": "d1"}, {"seed": 1})
    with pytest.raises(KeyUnavailable, match="version"):
        artifact_key("routes", {}, {})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small project whose code is digested in place of ours."""
    (tmp_path / "floor" / "prompts").mkdir(parents=True)
    (tmp_path / "floor" / "stage.py").write_text(
        '"""Doc."""\nfrom floor.helper import h\n\n\ndef run(x):\n    return h(x)\n'
    )
    (tmp_path / "floor" / "helper.py").write_text("def h(x):\n    return x + 1\n")
    (tmp_path / "floor" / "prompts" / "ask.md.j2").write_text("Which {{ slot }}?\n")
    (tmp_path / "floor" / "audit.sql").write_text("SELECT 1;\n")
    (tmp_path / "floor" / "README.md").write_text("words\n")
    monkeypatch.setattr(keys, "PROJECT_ROOT", tmp_path)
    code_digest.cache_clear()
    yield tmp_path
    code_digest.cache_clear()


def _digest_after(project: Path, name: str, text: str) -> str:
    (project / "floor" / name).write_text(text)
    code_digest.cache_clear()
    return code_digest("floor")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("helper.py", "def h(x):\n    return x + 2\n"),
        ("prompts/ask.md.j2", "Which {{ slot }} please?\n"),
        ("audit.sql", "SELECT 2;\n"),
        ("new_helper.py", "X = 1\n"),
        ("stage.py", 'from floor.helper import h\n\n\ndef run(x):\n    return h(x) or "Doc."\n'),
    ],
)
def test_changed_code_prompts_and_sql_change_the_digest(project: Path, name: str, text: str) -> None:
    before = code_digest("floor")
    assert _digest_after(project, name, text) != before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("helper.py", "def h(x):\n    # why\n    return x + 1\n"),
        ("helper.py", 'def h(x):\n    """Says what."""\n    return x + 1\n'),
        ("README.md", "other words\n"),
    ],
)
def test_comments_and_docstrings_do_not(project: Path, name: str, text: str) -> None:
    before = code_digest("floor")
    assert _digest_after(project, name, text) == before


@pytest.mark.parametrize("content", [b"def broken(:", "x = 'é'".encode("latin-1"), b"x = 1\0"])
def test_code_that_cannot_be_read_is_named(project: Path, content: bytes) -> None:
    (project / "floor" / "broken.py").write_bytes(content)
    code_digest.cache_clear()
    with pytest.raises(KeyUnavailable, match=r"floor/broken\.py cannot be read as Python \(.*mend or remove it"):
        code_digest("floor")


def test_code_that_was_written_since_is_told_whatever_it_says(project: Path) -> None:
    written = [path.stat().st_ctime_ns for path in (project / "floor").rglob("*")]
    assert code_changed((project / "floor" / "helper.py").stat().st_ctime_ns - 1, "floor")
    assert not code_changed(max(written), "floor")


def test_no_code_is_an_error(project: Path) -> None:
    with pytest.raises(KeyUnavailable, match="no code found"):
        code_digest("cellar")


def test_keyed_digests_need_the_key() -> None:
    assert keyed_digest(b"k", "db") == keyed_digest(b"k", "db")
    assert keyed_digest(b"k", "db") != keyed_digest(b"l", "db")
    assert keyed_digest(b"k", "db") != keyed_digest(b"k", "dc")
