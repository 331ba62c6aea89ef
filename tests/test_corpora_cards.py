"""Schema cards, schema texts and handles say what a database is without saying which physical one it is."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

from corpora_support import write_bird, write_json, write_livesqlbench, write_spider

from tasks_lib.corpora import bird, livesqlbench, spider
from tasks_lib.corpora.cards import SCHEMA_CARD, handle, identifier, schema_card, schema_text
from tasks_lib.corpora.meanings import flat, joined, nameless
from tasks_lib.protocol.vocabulary import Corpus, Engine


def test_the_card_is_frozen(tmp_path: Path) -> None:
    harbour = spider.read(write_spider(tmp_path)).databases[0]
    assert SCHEMA_CARD == "schema_card@1"
    assert schema_card(replace(harbour, title="ships in port")) == (
        "ships in port. It holds berth (berth no: berth number, quay, max length: longest ship in metres); "
        "stay (stay no, berth no, ship, arrived)."
    )


def test_schema_text_is_ddl_the_engine_takes(tmp_path: Path) -> None:
    harbour = spider.read(write_spider(tmp_path)).databases[0]
    text = schema_text(harbour)
    assert text == (
        "CREATE TABLE berth (\n"
        "    berth_no INTEGER PRIMARY KEY, -- berth number\n"
        "    quay TEXT,\n"
        '    "Max Length" REAL -- longest ship in metres\n'
        ");\n"
        "\n"
        "CREATE TABLE stay (\n"
        "    stay_no INTEGER PRIMARY KEY,\n"
        "    berth_no INTEGER,\n"
        "    ship TEXT,\n"
        "    arrived DATE,\n"
        "    FOREIGN KEY (berth_no) REFERENCES berth (berth_no)\n"
        ");\n"
    )
    connection = sqlite3.connect(":memory:")
    connection.executescript(text)
    connection.close()


def test_no_physical_name_and_no_value(tmp_path: Path) -> None:
    root = write_bird(tmp_path)
    write_json(root / "column_meaning/a.json", {"harbour_1|stay|ship": "Ship seen in HARBOUR_1, see 'harbour_1'."})
    harbour = next(database for database in bird.read(root).databases if database.name == "harbour_1")
    for text in (schema_text(harbour), schema_card(harbour)):
        assert "harbour_1" not in text.lower()
        assert "Petrel" not in text
        assert "Ship seen in harbour" in text


def test_names_leave_meanings() -> None:
    given = {
        ("a", "b"): "Key of the 'pond_2' database (db id: pond_2). Also pond_2x and POND_2.",
        ("a", "c"): "A row in the pond_2 database.",
    }
    assert nameless(given, "pond_2") == {("a", "b"): "Key. Also pond_2x and pond.", ("a", "c"): "A row."}
    assert nameless({("a", "b"): "Title of books in the books database."}, "books") == {("a", "b"): "Title of books."}


def test_descriptions_are_joined_once() -> None:
    assert joined("ship_name", ["ship name", "Name of the ship", "name of the ship.", ""]) == "Name of the ship"
    assert joined("x", ["north side", "the north side of the quay", "paid"]) == "the north side of the quay; paid"
    assert (
        flat({"column_meaning": "A.", "fields_meaning": {"b": {"c": "D", "e": ["F", "G"]}}})
        == "A. b.c: D b.e: F b.e: G"
    )


def test_identifiers_are_quoted_where_the_engine_asks_for_it() -> None:
    names = ["plain", "Upper", "a b", "order", 'q"t', "1st", "naïve"]
    assert [identifier(Engine.SQLITE, name) for name in names] == [
        "plain", "Upper", '"a b"', '"order"', '"q""t"', '"1st"', '"naïve"',
    ]  # fmt: skip
    assert identifier(Engine.POSTGRES, "Upper") == '"Upper"'
    connection = sqlite3.connect(":memory:")
    for word in (
        "order",
        "group",
        "select",
        "table",
        "index",
        "from",
        "where",
        "values",
        "limit",
        "case",
        "join",
        "to",
    ):
        connection.execute(f"CREATE TABLE {identifier(Engine.SQLITE, word)} ({identifier(Engine.SQLITE, word)} TEXT)")
    connection.close()


def test_handles(tmp_path: Path) -> None:
    root = write_bird(tmp_path / "b")
    write_json(root / "ORIGIN.json", {"harbour_1": "replica"})
    handles = {database.name: handle(database, f"db_{database.name[0]}") for database in bird.read(root).databases}
    assert {name: made.samples for name, made in handles.items()} == {"harbour_1": False, "orchard": True}
    made = handles["orchard"]
    assert (made.database_id, made.corpus, made.engine) == ("db_o", Corpus.BIRD, Engine.SQLITE)
    assert Path(made.location).is_absolute()
    (tmp_path / "l").mkdir()
    (kennel,) = livesqlbench.read(write_livesqlbench(tmp_path / "l")).databases
    made = handle(kennel, "db_k")
    assert made.engine is Engine.POSTGRES
    assert made.location.endswith("dumps/kennel_full.sql")
    assert made.knowledge.startswith("Light Dog: ")
    assert 'CREATE TABLE "Dogs" (' in made.schema_text
