"""CREATE statements as text, read into tables, columns with comments, and links between tables.

Belongs here: reading the schema text of a prompt (SQLite or PostgreSQL), nothing else about it being assumed. Does not
belong here: matching words with it (`sql_linking`). A column's comment is the `--` comment on its line, or on the lines
before it, or its COMMENT ON.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<quoted>"(?:[^"]|"")*"|`[^`]*`|\[[^\]\n]+\])
      | (?P<string>'(?:[^']|'')*')
      | (?P<word>[^\W\d][\w$]*)
      | (?P<number>\d[\w.]*)
      | (?P<sign>[^\s])""",
    re.VERBOSE | re.DOTALL,
)
_CONSTRAINTS = frozenset({"constraint", "primary", "foreign", "unique", "check", "exclude", "key"})
_AFTER_TYPE = frozenset(
    {"not", "null", "primary", "references", "default", "unique", "check", "collate", "constraint", "generated"}
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `type` in lower case, `comment` without its marks."""

    table: str
    name: str
    type: str
    comment: str = ""
    primary: bool = False

    @property
    def numeric(self) -> bool:
        """Whether the declared type is a number (an untyped column is not)."""
        return bool(re.search(r"int|real|num|dec|float|double|money|serial", self.type))

    @property
    def temporal(self) -> bool:
        """Whether the declared type or the name tells of a date or a year."""
        return bool(re.search(r"date|time|year", self.type) or re.search(r"date|year|time", self.name.lower()))


@dataclass(frozen=True, slots=True)
class Table:
    """One table with its columns in declared order."""

    name: str
    columns: tuple[Column, ...]

    @property
    def key(self) -> Column | None:
        """The only primary key column, or None."""
        keys = [column for column in self.columns if column.primary]
        return keys[0] if len(keys) == 1 else None


@dataclass(frozen=True, slots=True)
class Link:
    """`source` refers to `target`. `declared`: a foreign key; else two columns of one name, one of them a key."""

    source: Column
    target: Column
    declared: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """All tables in order and the links between them."""

    tables: tuple[Table, ...]
    links: tuple[Link, ...]

    def table(self, name: str) -> Table:
        """The table of that name."""
        return next(table for table in self.tables if table.name == name)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int
    start: int

    @property
    def low(self) -> str:
        return self.text.lower() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """The identifier, quotes removed."""
        return self.text[1:-1].replace('""', '"') if self.kind == "quoted" else self.text


@dataclass(frozen=True, slots=True)
class _Reference:
    table: str
    column: str
    target_table: str
    target_column: str


@lru_cache(maxsize=256)
def parse_schema(text: str) -> Schema:
    """Read every CREATE TABLE of `text`; what is not understood is passed over."""
    tokens = _tokens(text)
    tables: dict[str, Table] = {}
    references: list[_Reference] = []
    comments: dict[tuple[str, str], str] = {}
    position = 0
    while position < len(tokens):
        head = [token.low for token in tokens[position : position + 3]]
        if head[:2] in (["create", "table"], ["create", "view"]):
            position = _read_table(tokens, position + 2, tables, references)
        elif head[:2] == ["alter", "table"]:
            names = [
                token.name for token in tokens[position + 2 : position + 6] if token.low not in ("only", "if", "exists")
            ]
            end = _statement_end(tokens, position)
            table = names[2] if len(names) > 2 and names[1] == "." else names[0]
            references.extend(_foreign_keys(tokens[position:end], table))
            position = end
        elif head == ["comment", "on", "column"]:
            end = _statement_end(tokens, position)
            names = [token.name for token in tokens[position + 3 : end] if token.kind in ("word", "quoted")]
            strings = [token for token in tokens[position:end] if token.kind == "string"]
            path = names[: names.index("IS")] if "IS" in names else names[:-1]
            if strings and len(path) >= 2:
                comments[(path[-2].lower(), path[-1].lower())] = strings[-1].text[1:-1].replace("''", "'")
            position = end
        else:
            position += 1
    made = tuple(_commented(table, comments) for table in tables.values())
    return Schema(made, _links(made, references))


def _tokens(text: str) -> list[_Token]:
    found = []
    line, seen = 0, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", seen, match.start())
        seen = match.start()
        found.append(_Token(str(match.lastgroup), match.group(), line, match.start()))
    return found


def _statement_end(tokens: list[_Token], position: int) -> int:
    while position < len(tokens) and tokens[position].text != ";":
        position += 1
    return position


def _read_table(tokens: list[_Token], position: int, tables: dict[str, Table], references: list[_Reference]) -> int:
    while position < len(tokens) and tokens[position].low in ("if", "not", "exists"):
        position += 1
    name = ""
    while position < len(tokens) and tokens[position].text != "(":
        if tokens[position].kind in ("word", "quoted"):
            name = tokens[position].name
        elif tokens[position].text == ";":
            return position
        position += 1
    position += 1
    items: list[list[_Token]] = [[]]
    remarks: list[_Token] = []
    depth = 0
    while position < len(tokens):
        token = tokens[position]
        if token.kind == "comment":
            remarks.append(token)
        elif token.text == ")" and depth == 0:
            break  # a last column's comment stands before the bracket
        elif token.text == "," and depth == 0:
            items.append([])
        else:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            items[-1].append(token)
        position += 1
    items = [item for item in items if item]
    columns = []
    keys: set[str] = set()
    for item in items:
        if item[0].low in _CONSTRAINTS:
            references.extend(_foreign_keys(item, name))
            keys |= _primary(item)
            continue
        columns.append(_column(item, name, _remark(item, items, remarks)))
        if inline := _inline_reference(item, name):
            references.append(inline)
    tables[name.lower()] = Table(
        name,
        tuple(Column(c.table, c.name, c.type, c.comment, c.primary or c.name.lower() in keys) for c in columns),
    )
    return position


def _remark(item: list[_Token], items: list[list[_Token]], remarks: list[_Token]) -> str:
    mine = [remark for remark in remarks if _owner(remark, items) is item]
    return " ".join(re.sub(r"^--\s*|^/\*\s*|\s*\*/$", "", remark.text).strip() for remark in mine)


def _owner(remark: _Token, items: list[list[_Token]]) -> list[_Token] | None:
    """The item a comment is about: the last one that it follows on its line, else the next one."""
    before = [item for item in items if item[0].start < remark.start and item[-1].line >= remark.line]
    after = [item for item in items if item[0].start > remark.start]
    return before[-1] if before else after[0] if after else None


def _column(item: list[_Token], table: str, comment: str) -> Column:
    type_words = []
    for token in item[1:]:
        if token.low in _AFTER_TYPE:
            break
        type_words.append(token.text.lower())
    lows = [token.low for token in item]
    return Column(table, item[0].name, " ".join(type_words), comment, "primary" in lows[1:])


def _primary(item: list[_Token]) -> set[str]:
    lows = [token.low for token in item]
    if "primary" not in lows:
        return set()
    return {token.name.lower() for token in item[lows.index("primary") + 2 :] if token.kind in ("word", "quoted")}


def _inline_reference(item: list[_Token], table: str) -> _Reference | None:
    lows = [token.low for token in item]
    if "references" not in lows:
        return None
    names = _names(item[lows.index("references") + 1 :])
    return _Reference(table, item[0].name, names[0][-1], names[1][-1] if len(names) > 1 else "")


def _foreign_keys(item: list[_Token], table: str) -> list[_Reference]:
    """Foreign keys of one column inside `item`; keys of several columns give their pairs."""
    found = []
    lows = [token.low for token in item]
    for start, low in enumerate(lows):
        if low == "foreign" and "references" in lows[start:]:
            middle = lows.index("references", start)
            sources = _names(item[start + 2 : middle])
            names = _names(item[middle + 1 :])
            targets = names[1] if len(names) > 1 else []
            for index, source in enumerate(sources[0] if sources else []):
                found.append(_Reference(table, source, names[0][-1], targets[index] if index < len(targets) else ""))
    return found


def _names(tokens: list[_Token]) -> list[list[str]]:
    """Identifiers before the first bracket and inside it: [[schema, table], [columns]]; [[columns]] for a bracket alone."""
    groups: list[list[str]] = [[]]
    for token in tokens:
        if token.text == "(":
            if groups[-1]:
                groups.append([])
        elif token.text == ")":
            break
        elif token.kind in ("word", "quoted"):
            if (
                token.low in ("on", "match", "deferrable", "not", "default")
                and token.kind == "word"
                and len(groups) == 1
                and groups[0]  # the first word is a name whatever it is: a table may be called match
            ):
                break
            groups[-1].append(token.name)
    return [group for group in groups if group]


def _commented(table: Table, comments: dict[tuple[str, str], str]) -> Table:
    columns = tuple(
        Column(c.table, c.name, c.type, c.comment or comments.get((table.name.lower(), c.name.lower()), ""), c.primary)
        for c in table.columns
    )
    return Table(table.name, columns)


def _links(tables: tuple[Table, ...], references: list[_Reference]) -> tuple[Link, ...]:
    columns = {(t.name.lower(), c.name.lower()): c for t in tables for c in t.columns}
    keys = {t.name.lower(): t.key for t in tables}
    links: dict[tuple[str, str, str, str], Link] = {}

    def add(source: Column | None, target: Column | None, declared: bool) -> None:
        if source and target and source.table != target.table:
            links.setdefault((source.table, source.name, target.table, target.name), Link(source, target, declared))

    for item in references:
        source = columns.get((item.table.lower(), item.column.lower()))
        named = columns.get((item.target_table.lower(), item.target_column.lower()))
        add(source, named or keys.get(item.target_table.lower()), True)
    declared = {frozenset((link.source.table, link.target.table)) for link in links.values()}
    for table in tables:
        for column in table.columns:
            for other in tables:
                key = other.key
                if key and not column.primary and frozenset((table.name, other.name)) not in declared:
                    low = column.name.lower()
                    if key.name.lower() == low or _names_key(low, other.name.lower(), key.name.lower()):
                        add(column, key, False)
    return tuple(links.values())


def _names_key(column: str, table: str, key: str) -> bool:
    """`start_station_id` or `RepoId` beside `station.id` and `repo.Id`."""
    return any(column == f"{name}{key}" or column.endswith(f"{name}_{key}") for name in (table, table.rstrip("s")))
