"""A database that is described without a dump: read for the catalog, never run."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpora_support import write_livesqlbench

from tasks_lib.corpora import livesqlbench
from tasks_lib.corpora.files import CorpusError
from tasks_lib.corpora.postgres_schema import read_description
from tasks_lib.protocol.vocabulary import Corpus

TEXT = """"CREATE" TABLE "kilns" (
kiln_id bigint NOT NULL DEFAULT nextval('kilns_kiln_id_seq'::regclass),
firings jsonb NULL,
    "PRIMARY" KEY (kiln_id)
);

"First" 3 rows:
  kiln_id  firings
---------  -------------------------
        1  {'note': 'CREATE TABLE x (y text);'}
...

CREATE TABLE pots (
pot_id bigint NOT NULL,
kiln_id bigint NULL,
    PRIMARY KEY (pot_id),
    FOREIGN KEY (kiln_id) REFERENCES kilns(kiln_id)
);
"""


def test_tables_keys_and_meanings_are_read_and_sample_rows_are_not(tmp_path: Path) -> None:
    path = tmp_path / "pottery_schema.txt"
    path.write_text(TEXT, "utf-8")
    tables, ddl = read_description(Corpus.LIVESQLBENCH, path, {("kilns", "firings"): "each firing of the kiln"})
    assert [t.name for t in tables] == ["kilns", "pots"]
    kilns, pots = tables
    assert [(c.name, c.primary, c.meaning) for c in kilns.columns] == [
        ("kiln_id", True, ""),
        ("firings", False, "each firing of the kiln"),
    ]
    assert [c.references for c in pots.columns] == [None, ("kilns", "kiln_id")]
    assert {t.row_count for t in tables} == {0}
    assert "note" not in ddl


def test_a_text_without_tables_gives_none_and_an_unreadable_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "odd_schema.txt"
    path.write_text("nothing here", "utf-8")
    assert read_description(Corpus.LIVESQLBENCH, path, {}) == ((), "")
    path.write_text("CREATE TABLE a (b )) c\n);", "utf-8")
    with pytest.raises(CorpusError, match=r"odd_schema.txt.*unreadable"):
        read_description(Corpus.LIVESQLBENCH, path, {})


def test_a_described_database_is_read_without_rows_or_questions(tmp_path: Path) -> None:
    root = write_livesqlbench(tmp_path, ("kennel", "aviary"))
    (root / "aviary" / "aviary_schema.txt").write_text(TEXT, "utf-8")
    source = livesqlbench.read(root)
    described = {database.name: database for database in source.databases}
    assert (described["aviary"].loaded, described["kennel"].loaded) == (False, True)
    assert described["aviary"].relative_path == "aviary/aviary_schema.txt"
    assert {question.database for question in source.questions} == {"kennel"}
    assert any("aviary" in note and "no task can require it" in note for note in source.notes)
