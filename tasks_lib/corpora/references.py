"""PRIVATE. What a gold query refers to: tables, columns and constants, resolved against its database.

Belongs here: name resolution for checks, SQLite's rule about double-quoted names included (known fault V01). Does not
belong here: rewriting SQL. The tree is read only; what is stored, hashed and run is the text as written.

SQLite takes a double-quoted name that is no column in scope for a string: such a name is a constant here and the query
gets `dqs_literal`. One that is a column is a column, also where its author meant a string; when it is compared with
another column the query gets `dqs_shadowed`. In PostgreSQL it is always a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from tasks_lib.corpora.model import CorpusDatabase
from tasks_lib.protocol.vocabulary import Engine
from tasks_lib.sql.lexer import TokenKind, tokens, trimmed


@dataclass(frozen=True, slots=True)
class Constant:
    """One constant of the text: `sql[start:end]` is how it is written, `value` what it says; `number` or a string."""

    value: str
    start: int
    end: int
    number: bool


@dataclass(frozen=True, slots=True)
class References:
    """`tables` and `columns` (`table.column`) in lower case, sorted; `*` names no column. `constants` in text order.

    `missing_tables`, `missing_columns`: names that the database does not have. `dqs_literals`: double-quoted names that
    are strings; `dqs_shadowed`: those that are columns and are compared with a column.
    """

    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    constants: tuple[Constant, ...] = ()
    missing_tables: tuple[str, ...] = ()
    missing_columns: tuple[str, ...] = ()
    dqs_literals: tuple[str, ...] = ()
    dqs_shadowed: tuple[str, ...] = ()

    @property
    def literals(self) -> tuple[str, ...]:
        """The values of the constants, each once, in text order."""
        return tuple(dict.fromkeys(constant.value for constant in self.constants))


def references(sql: str, database: CorpusDatabase) -> References:
    """Resolve the names and constants of one query.

    Raises:
        ValueError: `sql` is not one query that can be read in the dialect of the engine.
    """
    text = trimmed(database.engine, sql)
    try:
        return references_in(parsed_query(database.engine, text), text, database)
    except (SqlglotError, RecursionError) as error:
        raise ValueError(f"The SQL {sql[:60]!r} cannot be read, its references cannot be told: {error}") from error


def parsed_query(engine: Engine, text: str) -> exp.Expr:
    """The tree of a trimmed text. Raises ValueError when it is not one query, SqlglotError when it cannot be read."""
    parsed = [node for node in sqlglot.parse(text, read=engine.value) if node is not None]
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query | exp.Values):
        raise ValueError(f"The SQL {text[:60]!r} is not one query; its references cannot be told.")
    return parsed[0]


def references_in(tree: exp.Expr, text: str, database: CorpusDatabase) -> References:
    """The same for a trimmed text whose tree is at hand. Raises SqlglotError or RecursionError."""
    resolver = _Resolver(database, text)
    resolver.resolve(tree)
    return References(
        tables=tuple(sorted(resolver.tables)),
        columns=tuple(sorted(resolver.columns)),
        constants=tuple(_constants(database.engine, text, resolver.literal_starts)),
        missing_tables=tuple(sorted(resolver.missing_tables)),
        missing_columns=tuple(sorted(resolver.missing_columns)),
        dqs_literals=tuple(resolver.literal_starts.values()),
        dqs_shadowed=tuple(resolver.shadowed),
    )


_COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.Like,
    exp.ILike,
    exp.Glob,
    exp.Is,
    exp.In,
    exp.Between,
)
_ROWID = frozenset({"rowid", "oid", "_rowid_"})
_SYSTEM_COLUMNS = frozenset({"ctid", "tableoid", "xmin", "xmax", "cmin", "cmax"})
_CATALOGS = frozenset({"information_schema", "pg_catalog"})


@dataclass
class _Resolver:
    database: CorpusDatabase
    text: str
    tables: set[str] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)
    missing_tables: set[str] = field(default_factory=set)
    missing_columns: set[str] = field(default_factory=set)
    literal_starts: dict[int, str] = field(default_factory=dict)
    shadowed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._known = {
            table.name.lower(): frozenset(column.name.lower() for column in table.columns)
            for table in self.database.tables
        }
        hidden = _ROWID if self.database.engine is Engine.SQLITE else _SYSTEM_COLUMNS
        self._hidden = hidden

    def resolve(self, root: exp.Expr) -> None:
        """Inner scopes come first: a column that an inner scope does not resolve is tried again in the outer one."""
        settled: set[int] = set()
        pending: dict[int, exp.Column] = {}
        for scope in traverse_scope(root):
            for source in scope.sources.values():
                if isinstance(source, exp.Table):
                    self._table(source)
            self._using(scope)
            for column in scope.columns:
                if id(column) in settled:
                    continue
                if self._column(scope, column):
                    settled.add(id(column))
                    pending.pop(id(column), None)
                else:
                    pending[id(column)] = column
        for column in pending.values():
            self._unresolved(column)

    def _table(self, table: exp.Table) -> None:
        if not isinstance(table.this, exp.Identifier) or table.db.lower() in _CATALOGS:
            return
        name = table.name.lower()
        (self.tables if name in self._known else self.missing_tables).add(name)

    def _using(self, scope: Scope) -> None:
        for join in scope.expression.args.get("joins") or ():
            for name in join.args.get("using") or ():
                for source in scope.sources.values():
                    self._refer(source, name.name.lower())

    def _column(self, scope: Scope, column: exp.Column) -> bool:
        if isinstance(column.this, exp.Star):
            return True
        name, qualifier = column.name.lower(), column.table.lower()
        # CTEs that a scope sees but does not select from give it no columns.
        selected = {alias: source for alias, (_, source) in scope.selected_sources.items()} or scope.sources
        sources = [source for alias, source in selected.items() if not qualifier or alias.lower() == qualifier]
        closed = [source for source in sources if self._outputs(source) is not None]
        if any(self._refer(source, name) for source in closed):
            self._note_shadowed(column)
            return True
        if len(closed) < len(sources):
            return True
        if qualifier:
            return bool(sources) and name in self._hidden
        if name in self._hidden and any(isinstance(source, exp.Table) for source in sources):
            return True
        # An alias of the select list (ORDER BY, GROUP BY, HAVING), or in PostgreSQL a whole row by its source's name.
        aliases = set(_aliases(scope.expression, column))
        rows = {alias.lower() for alias in selected} if self.database.engine is Engine.POSTGRES else set()
        return name in aliases | rows

    def _refer(self, source: exp.Expr | Scope, name: str) -> bool:
        """Whether `source` has a column `name`; a table of the database is then referred to."""
        outputs = self._outputs(source)
        if outputs is None or name not in outputs:
            return False
        if isinstance(source, exp.Table):
            self.columns.add(f"{source.name.lower()}.{name}")
        return True

    def _outputs(self, source: exp.Expr | Scope) -> frozenset[str] | None:
        """The column names a source offers, lower case; None when they cannot be listed (a table function)."""
        if isinstance(source, exp.Table):
            if not isinstance(source.this, exp.Identifier) or source.db.lower() in _CATALOGS:
                return None
            # A table that is missing is told once; its columns are not missing on top of that.
            return self._known.get(source.name.lower())
        if not isinstance(source, Scope):
            return None
        expression = source.expression
        named = expression
        while isinstance(named.parent, exp.SetOperation):  # inside a recursive CTE its first branch stands for it
            named = named.parent
        given = named.parent.args.get("alias") if named.parent is not None else None
        if isinstance(given, exp.TableAlias) and given.args.get("columns"):
            return frozenset(column.name.lower() for column in given.args["columns"])
        if isinstance(expression, exp.SetOperation):
            return self._outputs(source.set_operation_scopes[0]) if source.set_operation_scopes else None
        if not isinstance(expression, exp.Select):
            return None
        names = {name.lower() for name in expression.named_selects if name != "*"}
        for projection in expression.selects:
            if projection.is_star:
                wanted = projection.table.lower() if isinstance(projection, exp.Column) else ""
                for alias, (_, inner) in source.selected_sources.items():
                    if wanted and alias.lower() != wanted:
                        continue
                    outputs = self._outputs(inner)
                    if outputs is None:
                        return None
                    names |= outputs
        return frozenset(names)

    def _unresolved(self, column: exp.Column) -> None:
        if self._double_quoted(column) and self.database.engine is Engine.SQLITE and not column.table:
            self.literal_starts[column.this.meta["start"]] = column.name
        else:
            self.missing_columns.add(f"{column.table}.{column.name}".lower().lstrip("."))

    def _double_quoted(self, column: exp.Column) -> bool:
        start = column.this.meta.get("start")
        return start is not None and self.text[start] == '"'

    def _note_shadowed(self, column: exp.Column) -> None:
        parent = column.parent
        if self.database.engine is not Engine.SQLITE or column.table or not self._double_quoted(column):
            return
        if isinstance(parent, _COMPARISONS):
            others: list[exp.Expr] = [node for node in parent.iter_expressions() if id(node) != id(column)]
            if any(isinstance(node, exp.Column) for node in others):
                self.shadowed.append(column.name)


def _aliases(query: exp.Expr, column: exp.Column) -> Iterator[str]:
    """Names that the select list itself makes, lower case; `column` may not be explained by the alias it stands under."""
    if isinstance(query, exp.SetOperation):
        yield from (name.lower() for name in query.named_selects)
    elif isinstance(query, exp.Select):
        for projection in query.selects:
            if isinstance(projection, exp.Alias) and not any(node is projection for node in _ancestors(column)):
                yield projection.alias.lower()


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    while node.parent is not None:
        node = node.parent
        yield node


def _constants(engine: Engine, text: str, literal_starts: dict[int, str]) -> Iterator[Constant]:
    for token in tokens(engine, text):
        written = text[token.start : token.end]
        if token.kind is TokenKind.NUMBER:
            yield Constant(written, token.start, token.end, True)
        elif token.kind is TokenKind.NAME and token.start in literal_starts:
            yield Constant(literal_starts[token.start], token.start, token.end, False)
        elif token.kind is TokenKind.STRING and written.startswith("$"):  # $tag$text$tag$
            edge = written.index("$", 1) + 1
            yield Constant(written[edge:-edge], token.start, token.end, False)
        elif token.kind is TokenKind.STRING:  # 'text' or E'text'
            yield Constant(written[written.index("'") + 1 : -1].replace("''", "'"), token.start, token.end, False)
