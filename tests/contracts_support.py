"""Five tiny databases with questions, audited by the real audit, and a bench to run gates on."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from tasks_lib.catalog.identities import Identities
from tasks_lib.contracts import gates
from tasks_lib.contracts.contract import Candidate, Unit, freeze
from tasks_lib.contracts.distractors import Neighbourhood
from tasks_lib.contracts.pool import Pool
from tasks_lib.contracts.proposals import Bench, Proposal
from tasks_lib.contracts.wording import word
from tasks_lib.corpora.model import CorpusDatabase, CorpusSource, Question
from tasks_lib.corpora.sqlite_schema import read_schema
from tasks_lib.corpora.units import audit
from tasks_lib.protocol.records import DatabaseHandle, PublicTask
from tasks_lib.protocol.vocabulary import Corpus, Engine, Split
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.keys import digest, sha256_file

FILMS = """CREATE TABLE films (film_id INTEGER PRIMARY KEY, film_title TEXT, budget INTEGER, country TEXT);
INSERT INTO films VALUES (1, 'Glass Tower', 900, 'Norway'), (2, 'Iron Meadow', 400, 'Chile'), (3, 'Ash', 200, 'Chile');"""
SETUP: dict[str, tuple[str, str]] = {
    "lamp_films": ("a film studio's films and budgets", FILMS),
    "old_films": (
        "an archive of silent films and their budgets",
        FILMS.replace("'Glass Tower', 900", "'Stone Bridge', 70"),
    ),
    "wave_radio": (
        "a radio station's songs and airtime",
        """CREATE TABLE songs (song_id INTEGER PRIMARY KEY, song_title TEXT, plays INTEGER, singer TEXT);
        INSERT INTO songs VALUES (1, 'Glass Tower', 12, 'Ann Harper'), (2, 'Paper Kite', 40, 'Bo Lund'), (3, 'Ash', 7, 'Bo Lund');""",
    ),
    "leaf_shop": (
        "a garden shop's clients and sales",
        """CREATE TABLE clients (client_id INTEGER PRIMARY KEY, client_name TEXT, town TEXT);
        INSERT INTO clients VALUES (1, 'Ann Harper', 'Salem'), (2, 'Cy Doe', 'Salem'), (3, 'Di Moss', 'Lowell');
        CREATE TABLE sales (sale_id INTEGER PRIMARY KEY, client_id INTEGER, amount INTEGER);
        INSERT INTO sales VALUES (1, 1, 30), (2, 1, 12), (3, 2, 55);""",
    ),
    "north_clinic": (
        "a clinic's patients and bills",
        """CREATE TABLE patients (patient_id INTEGER PRIMARY KEY, patient_name TEXT, home_town TEXT);
        INSERT INTO patients VALUES (1, 'Ed Poe', 'Salem'), (2, 'Flo Ray', 'Lowell');
        CREATE TABLE bills (bill_id INTEGER PRIMARY KEY, patient_id INTEGER, total INTEGER);
        INSERT INTO bills VALUES (1, 1, 80), (2, 2, 20);""",
    ),
}
QUESTIONS: tuple[tuple[str, str, str, str], ...] = (
    ("film-top", "lamp_films", "Which film had the largest budget?", "SELECT film_title FROM films ORDER BY budget DESC LIMIT 1"),
    ("film-chile", "lamp_films", "How many films were made in 'Chile'?", "SELECT COUNT(*) FROM films WHERE country = 'Chile'"),
    ("film-mean", "lamp_films", "What is the average budget of the films?", "SELECT AVG(budget) FROM films"),
    (
        "song-plays",
        "wave_radio",
        "How many times has the song 'Glass Tower' been played?",
        "SELECT plays FROM songs WHERE song_title = 'Glass Tower'",
    ),
    ("song-singer", "wave_radio", "Who sang the song 'Glass Tower'?", "SELECT singer FROM songs WHERE song_title = 'Glass Tower'"),
    ("song-mean", "wave_radio", "What is the average number of plays?", "SELECT AVG(plays) FROM songs"),
    ("shop-salem", "leaf_shop", "How many people live in Salem?", "SELECT COUNT(*) FROM clients WHERE town = 'Salem'"),
    (
        "shop-spent",
        "leaf_shop",
        "How much has 'Ann Harper' spent?",
        "SELECT SUM(s.amount) FROM sales AS s JOIN clients AS c ON s.client_id = c.client_id WHERE c.client_name = 'Ann Harper'",
    ),
    ("shop-lowell", "leaf_shop", "How many people live in Lowell?", "SELECT COUNT(*) FROM clients WHERE town = 'Lowell'"),
    ("shop-none", "leaf_shop", "How many sales were above 900?", "SELECT COUNT(*) FROM sales WHERE amount > 900"),
    ("shop-empty", "leaf_shop", "Which sales were above 900?", "SELECT sale_id FROM sales WHERE amount > 900"),
    ("shop-nulls", "leaf_shop", "What was the largest sale above 900?", "SELECT MAX(amount) FROM sales WHERE amount > 900"),
    ("clinic-salem", "north_clinic", "How many people live in Salem?", "SELECT COUNT(*) FROM patients WHERE home_town = 'Salem'"),
    ("clinic-lowell", "north_clinic", "How many people live in Lowell?", "SELECT COUNT(*) FROM patients WHERE home_town = 'Lowell'"),
    ("clinic-bill", "north_clinic", "What is the highest bill of all?", "SELECT MAX(total) FROM bills"),
)  # fmt: skip


def make_source(folder: Path, setup: Mapping[str, tuple[str, str]] = SETUP) -> CorpusSource:
    """The databases written below `folder`, in Spider's layout, with their questions."""
    databases = []
    for name, (title, script) in setup.items():
        path = folder / "database" / name / f"{name}.sqlite"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            with closing(sqlite3.connect(path)) as connection:
                connection.executescript(script)
        tables, ddl = read_schema(Corpus.SPIDER, path, {}, {}, True)
        relative = path.relative_to(folder).as_posix()
        databases.append(
            CorpusDatabase(
                Corpus.SPIDER, name, Engine.SQLITE, path, relative, sha256_file(path), "embedded", title, tables, ddl
            )
        )
    questions = tuple(
        Question(unit_id, Corpus.SPIDER, database, question, sql, "", Split.DEV)
        for unit_id, database, question, sql in QUESTIONS
        if database in setup
    )
    return CorpusSource(Corpus.SPIDER, folder, tuple(databases), questions, digest([d.digest for d in databases]))


async def make_bench(source: CorpusSource, runner: SqlRunner) -> tuple[Bench, dict[str, Unit]]:
    """A bench over the source, and its units by id."""
    rows: list[dict[str, Any]] = await audit(source, runner)
    units = {row["unit_id"]: Unit.from_row(row) for row in rows}
    pool = Pool(source.databases, units.values(), b"test key")
    handles = {d.name: DatabaseHandle(d.name, d.corpus, d.engine, str(d.path), d.digest, "") for d in source.databases}
    return Bench(pool, Neighbourhood(pool), runner, handles), units


def propose(bench: Bench, candidate: Candidate, *others: str, request: str = "") -> Proposal:
    """The candidate with `request` (default: its wording) and an allowlist of its databases and `others`."""
    identities = Identities(b"test key")
    public_ids = {name: identities.database(Corpus.SPIDER, name) for name in bench.pool.databases}
    names = tuple(sorted({*candidate.databases, *others} & set(public_ids)))
    if not request:
        wording = word(candidate, bench.pool)
        assert wording is not None
        request = wording.request
    contract = freeze(candidate, "task_1", lambda name: public_ids.get(name, ""))
    task = PublicTask("task_1", candidate.corpus, request, tuple(public_ids[name] for name in names))
    return Proposal(candidate, names, contract, task, public_ids)


def reworded(proposal: Proposal, request: str) -> Proposal:
    return replace(proposal, task=replace(proposal.task, request=request))


async def refusals(bench: Bench, proposal: Proposal) -> list[str]:
    """Every gate that refuses, each asked on its own (not only the first)."""
    if gates.ownership(bench, proposal) is not None:
        return ["ownership"]  # the others may look up what is not there
    found = [g.__name__ for g in (*gates.CONTRACT, *gates.WORDING) if g(bench, proposal) is not None]
    return found + [g.__name__ for g in gates.EXECUTION if await g(bench, proposal) is not None]
