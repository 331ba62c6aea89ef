"""PRIVATE. Reader of LiveSQLBench-Base-Full in its official layout.

    <db>/<db>_schema.txt  <db>/<db>_column_meaning_base.json  <db>/<db>_kb.jsonl   a folder a database
    dumps/<db>_full.sql           plain PostgreSQL dumps, downloaded apart from the rest
    livesqlbench_data.jsonl       the tasks; `sol_sql` is empty where the solution is withheld
    units.jsonl                   questions with gold SQL of one's own, used when no task has its solution

Belongs here: that layout. Does not belong here: judging gold SQL (`units`), loading dumps (`tasks_lib.sql.postgres`).
A database without a dump has no rows to ask: its description is read, no question of it is, and `notes` tells so.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Protocol

from tasks_lib.corpora.files import (
    CorpusError,
    Record,
    build_question,
    check_unique,
    origins_of,
    read_lines,
    read_text,
    source_digest,
    text_of,
    titles_of,
)
from tasks_lib.corpora.meanings import flat, nameless, read_column_meanings
from tasks_lib.corpora.model import CorpusDatabase, CorpusSource, Question, SourceText
from tasks_lib.corpora.postgres_schema import read_description, read_dump, with_values
from tasks_lib.protocol.vocabulary import Corpus, Engine, Split
from tasks_lib.store.keys import sha256_file

TASKS, UNITS = "livesqlbench_data.jsonl", "units.jsonl"
_CORPUS = Corpus.LIVESQLBENCH


class DumpLoader(Protocol):
    """What is needed of `tasks_lib.sql.postgres.PostgresServer`."""

    def ensure_database(self, dump: Path, digest: str) -> str:
        """Return the connection string of the database with the content of `dump`."""
        ...


def read(root: Path, server: DumpLoader | None = None) -> CorpusSource:
    """Read LiveSQLBench below `root`.

    Args:
        server: loads the dumps, for row counts, examples and ranges; without it these are empty, and `notes` says so.

    Raises:
        CorpusError: a file is missing or malformed, a question names a database that is not described, or there is no
            question with gold SQL.
    """
    root = root.resolve()
    described = sorted(
        path.parent.name for path in root.glob("*/*_schema.txt") if path.name == f"{path.parent.name}_schema.txt"
    )
    if not described:
        raise CorpusError(_CORPUS, root, "folders <db> with <db>_schema.txt", "none")
    dumps = match_dumps(described, sorted((root / "dumps").glob("*.sql")))
    notes = []
    if server is None:
        notes.append("No server was given: row counts, examples and ranges are empty.")
    titles, origins = titles_of(_CORPUS, root, described), origins_of(_CORPUS, root, described)
    databases, files, knowledge = [], [], {}
    for name in described:
        database_files = [
            root / name / f"{name}{end}" for end in ("_schema.txt", "_column_meaning_base.json", "_kb.jsonl")
        ]
        files += database_files
        read_text(_CORPUS, database_files[0], "the schema text of the database")
        meanings = read_column_meanings(_CORPUS, database_files[1]).get(name.lower(), {})
        knowledge[name] = _knowledge(database_files[2])
        path = dumps.get(name, database_files[0])
        digest = sha256_file(path)
        if name in dumps:
            tables, ddl, views = read_dump(_CORPUS, path, nameless(meanings, name))
            notes += [f"The view {view} of {name} is left out: a dump does not tell its columns." for view in views]
            if server is not None:
                tables = with_values(server.ensure_database(path, digest), tables)
        else:
            tables, ddl = read_description(_CORPUS, path, nameless(meanings, name))
            if not tables:
                notes.append(f"{name} has no dump below dumps/ and no table in its schema text; it is left out.")
                continue
            notes.append(f"{name} has no dump below dumps/: it is in the catalog, and no task can require it.")
        databases.append(
            CorpusDatabase(
                corpus=_CORPUS,
                name=name,
                engine=Engine.POSTGRES,
                path=path,
                relative_path=path.relative_to(root).as_posix(),
                digest=digest,
                origin=origins[name],
                title=titles[name],
                tables=tables,
                ddl=ddl,
                knowledge="\n".join(knowledge[name].values()),
            )
        )
    questions, left_out = _questions(root, knowledge, dumps)
    notes += left_out
    files += [root / TASKS, root / UNITS]
    known = {database.relative_path: database.digest for database in databases}
    source = source_digest(root, files, {**known, "values": "none" if server is None else "read"})
    texts = _texts(root / TASKS, {d.name for d in databases}, {q.unit_id for q in questions})
    return CorpusSource(_CORPUS, root, tuple(databases), tuple(questions), source, tuple(notes), texts)


def match_dumps(names: list[str], paths: list[Path]) -> dict[str, Path]:
    """Return the dump of each database that has one.

    The dump of `db` is `db_full.sql`. Failing that it is the one dump, of no other database by that first rule, whose
    name equals `db` once case and a final "s" are dropped from both (`mental_healths_full.sql` holds `mental_health`).
    """
    stems = {path.name.removesuffix(".sql").removesuffix("_full"): path for path in paths}
    found = {name: stems[name] for name in names if name in stems}
    rest = {stem: path for stem, path in stems.items() if stem not in found}
    for name in names:
        near = [path for stem, path in rest.items() if stem.lower().rstrip("s") == name.lower().rstrip("s")]
        if name not in found and len(near) == 1:
            found[name] = near[0]
    return found


def _knowledge(path: Path) -> dict[int, str]:
    """Knowledge entries by id, each as one line: name, description, definition."""
    entries = {}
    for index, record in enumerate(read_lines(_CORPUS, path, "knowledge entries, one JSON object a line")):
        if not isinstance(record.get("id"), int) or not isinstance(record.get("knowledge"), str):
            raise CorpusError(_CORPUS, path, f"number id and text knowledge in entry {index}", ", ".join(record))
        rest = " ".join(flat(record.get(name) or "") for name in ("description", "definition"))
        entries[record["id"]] = f"{flat(record['knowledge'])}: {rest.strip()}"
    return entries


def _questions(
    root: Path, knowledge: Mapping[str, Mapping[int, str]], dumps: Mapping[str, Path]
) -> tuple[list[Question], list[str]]:
    tasks_file, units_file = root / TASKS, root / UNITS
    if not tasks_file.exists() and not units_file.exists():
        raise CorpusError(_CORPUS, tasks_file, f"the tasks of LiveSQLBench, or {UNITS} beside it", "neither file")
    tasks = read_lines(_CORPUS, tasks_file, "the tasks, one JSON object a line") if tasks_file.exists() else []
    questions = [
        question
        for index, record in enumerate(tasks)
        if (question := _solved(tasks_file, index, record, knowledge)) is not None
    ]
    notes = []
    if questions and len(questions) < len(tasks):
        notes.append(
            f"{len(tasks) - len(questions)} tasks have no solution, or one that changes data or needs changed data; they are left "
            f"out, and {UNITS} is not read beside solutions."
        )
    if not questions:
        fields = {"database": "db_id", "question": "question", "sql": "sql"}
        records = read_lines(_CORPUS, units_file, f"questions with gold SQL, as no task of {TASKS} has its solution")
        questions = [
            build_question(_CORPUS, units_file, index, record, fields, Split.DEV, knowledge)
            for index, record in enumerate(records)
        ]
    check_unique(_CORPUS, root, questions)
    kept = [question for question in questions if question.database in dumps]
    lost = len(questions) - len(kept)
    if lost:
        notes.append(f"{lost} questions over databases without a dump are left out.")
    return kept, notes


def _texts(path: Path, databases: Set[str], units: Set[str]) -> tuple[SourceText, ...]:
    """Tasks that ask something (Query) of a database in the catalog and are no unit, by id."""
    records = read_lines(_CORPUS, path, "the tasks, one JSON object a line") if path.exists() else []
    found = []
    for index, record in enumerate(records):
        if record.get("category") != "Query" or record.get("selected_database") not in databases:
            continue
        text_id = f"{_CORPUS}:{text_of(_CORPUS, path, index, record, 'instance_id')}"
        if text_id not in units:
            question = text_of(_CORPUS, path, index, record, "query")
            found.append(SourceText(text_id, _CORPUS, str(record["selected_database"]), question))
    return tuple(sorted(found, key=lambda text: text.text_id))


def _solved(path: Path, index: int, record: Record, knowledge: Mapping[str, Mapping[int, str]]) -> Question | None:
    """The task as a question, or None: its solution is withheld, or data are changed by it (Management) or before it."""
    given = record.get("sol_sql") or ()
    parts = [given] if isinstance(given, str) else given
    solution = [part for part in parts if isinstance(part, str) and part.strip()]
    if not solution or record.get("category") == "Management" or record.get("preprocess_sql"):
        return None
    fields = {"database": "selected_database", "question": "query", "sql": "sql"}
    named = knowledge.get(str(record.get("selected_database")), {})
    evidence = "\n".join(named[entry] for entry in record.get("external_knowledge") or () if entry in named)
    whole = {**record, "sql": "\n".join(solution), "evidence": evidence, "unit_id": record.get("instance_id")}
    return build_question(_CORPUS, path, index, whole, fields, Split.DEV, knowledge)
