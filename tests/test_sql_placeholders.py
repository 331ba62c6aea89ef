"""Named bindings are found on tokens, keep their types, and never become text (known faults E10, V10)."""

from __future__ import annotations

import sqlite3
from decimal import Decimal

import pytest

from tasks_lib.protocol.vocabulary import Engine
from tasks_lib.sql.canonical import Opaque
from tasks_lib.sql.placeholders import bindable, bound, driver_text, placeholders_in

SQLITE, POSTGRES = Engine.SQLITE, Engine.POSTGRES
SONGS = "SELECT ':title' AS lit, s FROM songs WHERE s = :title AND s2 = :title_en -- :title"


@pytest.mark.parametrize(
    ("engine", "sql", "names"),
    [
        (SQLITE, SONGS, ("title", "title_en")),
        (SQLITE, 'SELECT ":a", [:b], `:c`, :d /* :e */', ("d",)),
        (SQLITE, "SELECT :b, :a, :b", ("b", "a")),
        (POSTGRES, "SELECT x::text, :y::int, a[1:n], a[:n], $$ :z $$, E'\\' :q'", ("y",)),
        (POSTGRES, "SELECT make_interval(days := :d), '{\"a\":1}'::jsonb ? 'a'", ("d",)),
        (POSTGRES, "SELECT /* /* :a */ :b */ :c", ("c",)),
        (SQLITE, "SELECT ':never closed", ()),
    ],
)
def test_bindings_are_found_on_tokens(engine: Engine, sql: str, names: tuple[str, ...]) -> None:
    assert placeholders_in(engine, sql) == names


def test_sqlite_binds_by_name() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE songs (s, s2)")
    connection.execute("INSERT INTO songs VALUES (?, ?)", ("O'Hara's", "x"))
    statement = bound(SQLITE, SONGS, {"title": "O'Hara's", "title_en": "x", "unused": 1})
    assert statement.sql == SONGS
    assert statement.bindings == (("title", "O'Hara's"), ("title_en", "x"))
    rows = connection.execute(driver_text(SQLITE, SONGS), dict(statement.bindings)).fetchall()
    assert rows == [(":title", "O'Hara's")]


def test_postgres_text_changes_only_at_the_bindings() -> None:
    sql = "SELECT '100%', :b || '%', x::int, :a, :b FROM m WHERE t LIKE '%:a%'"
    assert driver_text(POSTGRES, sql) == "SELECT '100%', $1 || '%', x::int, $2, $1 FROM m WHERE t LIKE '%:a%'"


def test_a_binding_without_a_value_is_named() -> None:
    with pytest.raises(KeyError, match=":title_en"):
        bound(SQLITE, SONGS, {"title": "a"})


def test_upstream_values_keep_their_type() -> None:
    assert [bindable(value) for value in ("02134", 2134, 2134.0, None, b"x")] == ["02134", 2134, 2134.0, None, b"x"]
    assert bindable(Decimal("12.50")) == "12.50"
    with pytest.raises(ValueError, match="cannot be bound"):
        bindable(Opaque("date", "infinity"))
