"""PRIVATE. The schema of a PostgreSQL dump, and what the columns of the loaded database hold.

Belongs here: finding the statements of a plain dump that describe tables, reading them, and sampling the loaded
database. Does not belong here: the server and loading (`tasks_lib.sql.postgres`), or which dumps a corpus has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tasks_lib.corpora.files import CorpusError
from tasks_lib.corpora.model import ColumnInfo, TableInfo
from tasks_lib.corpora.sqlite_schema import ColumnKey, quoted
from tasks_lib.corpora.values import SAMPLE_ROWS, column_values
from tasks_lib.protocol.vocabulary import Corpus

_DESCRIBES = re.compile(
    r"\s*(CREATE\s+(UNLOGGED\s+)?TABLE|CREATE\s+TYPE|CREATE\s+(OR\s+REPLACE\s+)?(MATERIALIZED\s+)?VIEW"
    r"|ALTER\s+TABLE)\b",
    re.IGNORECASE,
)
_TABLE = re.compile(r"CREATE\s+(UNLOGGED\s+)?TABLE\b", re.IGNORECASE)
_KEYS = re.compile(r"\b(PRIMARY|FOREIGN)\s+KEY\b", re.IGNORECASE)
_BLOCK = re.compile(r'^"?CREATE"? TABLE .*?^\);', re.MULTILINE | re.DOTALL)
_KEYWORDS = re.compile(r'"(CREATE|PRIMARY|FOREIGN)"(?= (?:TABLE|KEY)\b)')
_COPY = re.compile(r"\s*COPY\s.*\sFROM\s+stdin;\s*$", re.IGNORECASE)


@dataclass
class _Table:
    columns: dict[str, str] = field(default_factory=dict)
    primary: set[str] = field(default_factory=set)
    references: list[tuple[tuple[str, ...], str, tuple[str, ...]]] = field(default_factory=list)


def read_dump(
    corpus: Corpus, path: Path, meanings: Mapping[ColumnKey, str]
) -> tuple[tuple[TableInfo, ...], str, tuple[str, ...]]:
    """Return the tables of a dump in its order (row counts 0), its describing statements, and the views it makes.

    Views are named only: their columns are known to the engine alone.

    Raises:
        CorpusError: no such file, no CREATE TABLE in it, one that cannot be read, or a dump that is cut short: the server
            would load what is there without a complaint.
    """
    try:
        _check_end(path)
        with path.open(encoding="utf-8", errors="replace") as lines:
            statements = list(_statements(lines))
    except (FileNotFoundError, NotADirectoryError):
        raise CorpusError(corpus, path, "a plain PostgreSQL dump", "no such file") from None
    except _CutShort as reason:
        raise CorpusError(corpus, path, "a whole PostgreSQL dump", f"one that is cut short ({reason})") from None
    return _read(corpus, path, statements, meanings)


class _CutShort(Exception):
    pass


_FIRST, _LAST = b"-- PostgreSQL database dump\n", b"-- PostgreSQL database dump complete"


def _check_end(path: Path) -> None:
    """pg_dump says where a dump begins and where it is complete."""
    with path.open("rb") as stream:
        begins = _FIRST in stream.read(4096)
        stream.seek(max(0, path.stat().st_size - 4096))
        if begins and _LAST not in stream.read():
            raise _CutShort("its closing line is missing")


def read_description(
    corpus: Corpus, path: Path, meanings: Mapping[ColumnKey, str]
) -> tuple[tuple[TableInfo, ...], str]:
    """Return the tables (row counts 0) and describing statements of a schema text: CREATE TABLE blocks among sample rows.

    Published schema texts sometimes hold their keywords in double quotes. Of the sample rows nothing is read. A text without
    any such block gives no table.

    Raises:
        CorpusError: no such file, or a block that cannot be read.
    """
    try:
        text = path.read_text("utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        raise CorpusError(corpus, path, "the schema text of the database", "no such file") from None
    statements = [_KEYWORDS.sub(r"\1", block) for block in _BLOCK.findall(text)]
    if not statements:
        return (), ""
    tables, ddl, _ = _read(corpus, path, statements, meanings)
    return tables, ddl


def _read(
    corpus: Corpus, path: Path, statements: list[str], meanings: Mapping[ColumnKey, str]
) -> tuple[tuple[TableInfo, ...], str, tuple[str, ...]]:
    tables: dict[str, _Table] = {}
    views: list[str] = []
    for text in statements:
        try:
            parsed = sqlglot.parse(text, read="postgres")
        except SqlglotError as error:
            raise _unreadable(corpus, path, text, str(error).splitlines()[0]) from error
        for node in parsed:
            if isinstance(node, exp.Command) and _TABLE.match(text):
                raise _unreadable(corpus, path, text, "not in a form that is understood")
            if isinstance(node, exp.Create) and node.kind == "TABLE" and isinstance(node.this, exp.Schema):
                tables[_name(node.this.this)] = _table(node.this)
            elif isinstance(node, exp.Create) and node.kind == "VIEW":
                views.append(_name(node.find(exp.Table)))
            elif isinstance(node, exp.Alter) and (altered := tables.get(_name(node.this))) is not None:
                for action in node.args.get("actions") or ():
                    _constraints(altered, action)
    if not tables:
        raise CorpusError(corpus, path, "a plain PostgreSQL dump", "no CREATE TABLE statement in it")
    infos = tuple(_info(name, table, tables, meanings) for name, table in tables.items())
    return infos, "\n\n".join(statements) + "\n", tuple(views)


def _unreadable(corpus: Corpus, path: Path, text: str, reason: str) -> CorpusError:
    expected = "readable CREATE and ALTER TABLE statements"
    return CorpusError(corpus, path, expected, f"{' '.join(text.split())[:60]!r}, which is unreadable ({reason})")


def _statements(lines: Iterable[str]) -> Iterator[str]:
    """Yield the statements of a dump that describe tables. Strings and COPY blocks may hold anything and are skipped.

    A statement ends with a line that ends in a semicolon outside a string; whether a line ends inside a string is told
    by its quotes (a doubled quote leaves that as it is).
    """
    kept: list[str] | None = None
    begins, inside, copying = True, False, False
    for line in lines:
        if copying:
            copying = line.rstrip("\n") != "\\."
            continue
        if begins and (not line.strip() or line.startswith(("--", "\\"))):
            continue
        if begins and _COPY.match(line):
            copying = True
            continue
        if begins and _DESCRIBES.match(line):
            kept = []
        if kept is not None:
            kept.append(line)
        inside ^= line.count("'") % 2 == 1
        begins = not inside and line.rstrip().endswith(";")
        if begins and kept is not None:
            statement = "".join(kept).strip()
            # Of the ALTERs only keys matter; identity columns and owners are no part of what queries see.
            if statement[:5].upper() != "ALTER" or _KEYS.search(statement):
                yield statement
            kept = None
    if copying or not begins:
        raise _CutShort("it ends inside a COPY block" if copying else "it ends inside a statement")


def _name(node: exp.Expression | None) -> str:
    """The name as PostgreSQL keeps it: lower case unless quoted."""
    identifier = node.this if isinstance(node, exp.Table | exp.ColumnDef) else node
    if not isinstance(identifier, exp.Identifier):
        return node.name.lower() if node is not None else ""
    return identifier.name if identifier.quoted else identifier.name.lower()


def _table(schema: exp.Schema) -> _Table:
    table = _Table()
    for part in schema.expressions:
        if isinstance(part, exp.ColumnDef):
            name = _name(part)
            kind = part.args.get("kind")
            table.columns[name] = re.sub(r"^public\.", "", kind.sql("postgres")) if kind else ""
            for constraint in part.constraints:
                if isinstance(constraint.kind, exp.PrimaryKeyColumnConstraint):
                    table.primary.add(name)
                elif isinstance(constraint.kind, exp.Reference):
                    table.references.append(((name,), *_target(constraint.kind)))
        else:
            _constraints(table, part)
    return table


def _constraints(table: _Table, node: exp.Expression) -> None:
    for found in node.find_all(exp.PrimaryKey, exp.ForeignKey):
        columns = tuple(_name(column) for column in found.expressions)
        if isinstance(found, exp.PrimaryKey):
            table.primary.update(columns)
        elif (reference := found.args.get("reference")) is not None:
            table.references.append((columns, *_target(reference)))


def _target(reference: exp.Reference) -> tuple[str, tuple[str, ...]]:
    target = reference.this
    if isinstance(target, exp.Schema):
        return _name(target.this), tuple(_name(column) for column in target.expressions)
    return _name(target), ()


def _info(name: str, table: _Table, tables: Mapping[str, _Table], meanings: Mapping[ColumnKey, str]) -> TableInfo:
    links: dict[str, tuple[str, str]] = {}
    for columns, target, target_columns in table.references:
        if target not in tables:
            continue
        # A reference without columns means the primary key, in the order of the target's columns.
        targets = target_columns or tuple(key for key in tables[target].columns if key in tables[target].primary)
        for column, target_column in zip(columns, targets, strict=False):
            links.setdefault(column, (target, target_column))
    columns_of = tuple(
        ColumnInfo(
            name=column,
            type=type_,
            meaning=meanings.get((name.lower(), column.lower()), ""),
            primary=column in table.primary,
            references=links.get(column),
        )
        for column, type_ in table.columns.items()
    )
    return TableInfo(name, columns_of, 0)


_NUMBERS = re.compile(r"(SMALL|BIG)?(INT|SERIAL)\w*|REAL|DOUBLE PRECISION|FLOAT\w*|NUMERIC.*|DECIMAL.*", re.IGNORECASE)


def with_values(dsn: str, tables: tuple[TableInfo, ...]) -> tuple[TableInfo, ...]:
    """Return `tables` with row counts and column values read from the loaded database (rows in the order of the dump).

    Args:
        dsn: the reader's connection string. Values of JSON columns are documents and no examples.
    """
    import psycopg

    filled = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        for table in tables:
            parts = [
                quoted(column.name) + ("" if _NUMBERS.fullmatch(column.type) else "::text") for column in table.columns
            ]
            source = f"public.{quoted(table.name)}"
            counted = connection.execute(f"SELECT count(*) FROM {source}".encode()).fetchone()
            rows = connection.execute(
                f"SELECT {', '.join(parts)} FROM {source} LIMIT {SAMPLE_ROWS}".encode()
            ).fetchall()
            columns = []
            for at, column in enumerate(table.columns):
                values = column_values(row[at] for row in rows)
                examples = () if column.type.upper().startswith("JSON") else values.examples
                columns.append(
                    replace(column, examples=examples, value_range=values.value_range, distinct=values.distinct)
                )
            filled.append(replace(table, columns=tuple(columns), row_count=counted[0] if counted else 0))
    return tuple(filled)
