"""PRIVATE. Relations of the catalog: keys inside a database, and columns of two databases that could be matched, in words.

Compatibility is evidence in words (names alike, values in common), never an instruction to join, and never crosses corpora.
Values of replicas take no part: their columns are compared by name only (PROTOCOL 6).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tasks_lib.catalog.columns import is_numeric
from tasks_lib.catalog.keys import Key
from tasks_lib.catalog.values import EntityValue, synthetic
from tasks_lib.catalog.wording import listed, words
from tasks_lib.corpora.model import CorpusDatabase

PER_PAIR = 3
"""Compatible column pairs kept for two databases."""
PER_DATABASE = 40
COMMON_SHARE = 0.2
"""A value or column name found in a larger share of a corpus's databases (and in more than 5) says nothing about two of them."""
MIN_SHARED = 2
MIN_SHARE = 0.1
"""Columns of different names need two values and this share of the smaller column's values in common."""

Column = tuple[int, str, str]
"""(place of the database in the sequence, table, column)."""


NAMED_KEY = "names of the column and of the primary key; the schema declares no key"


@dataclass(frozen=True, slots=True)
class Relation:
    """`kind`: foreign_key | probable_key | compatible."""

    kind: str
    source: Column
    target: Column
    text: str
    provenance: str


def inside(place: int, found: Sequence[Key]) -> list[Relation]:
    """Keys of one database as relations: `foreign_key` where declared, else `probable_key` with what speaks for it."""
    relations = []
    for key in found:
        source, target = (place, key.table, key.column), (place, key.target_table, key.target_column)
        one, other = (
            f"{words(key.column)} of {words(key.table)}",
            f"{words(key.target_column)} of {words(key.target_table)}",
        )
        if key.declared:
            relations.append(
                Relation("foreign_key", source, target, f"{one} refers to {other}", "foreign key of the schema")
            )
            continue
        why = f"; {key.share} are found there" if key.share else ""
        text = f"{one} probably refers to {other}, its primary key, by name{why}"
        origin = f"{NAMED_KEY}; values found in both columns" if key.share else NAMED_KEY
        relations.append(Relation("probable_key", source, target, text, origin))
    return relations


def compatible(databases: Sequence[CorpusDatabase], values: Mapping[int, Sequence[EntityValue]]) -> list[Relation]:
    """Compatible columns of databases of one corpus, best evidence first within each pair of databases.

    `values`: entity values by place of the database. Deterministic: pairs in order of places, ties by table and column.
    """
    by_corpus: dict[str, list[int]] = defaultdict(list)
    for place, database in enumerate(databases):
        by_corpus[database.corpus.value].append(place)
    found: list[Relation] = []
    for corpus in sorted(by_corpus):
        found += _within(databases, values, by_corpus[corpus])
    return found


def _within(
    databases: Sequence[CorpusDatabase], values: Mapping[int, Sequence[EntityValue]], places: Sequence[int]
) -> list[Relation]:
    limit = max(5, int(COMMON_SHARE * len(places)))
    holders: dict[str, dict[Column, str]] = defaultdict(dict)
    for place in places:
        for entity in values.get(place, ()):
            holders[entity.value.strip().casefold()].setdefault(
                (place, entity.table, entity.column), entity.value.strip()
            )
    shared: dict[tuple[Column, Column], list[str]] = defaultdict(list)
    for key in sorted(holders):
        columns = sorted(holders[key])
        if len(key) < 3 or len({place for place, _, _ in columns}) > limit:
            continue
        for first, second in combinations(columns, 2):
            if first[0] != second[0]:
                shared[first, second].append(holders[key][first])
    sizes = Counter((place, e.table, e.column) for place in places for e in values.get(place, ()))
    named: dict[str, list[Column]] = defaultdict(list)
    for place in places:
        for table in databases[place].tables:
            for column in table.columns:
                name = words(column.name)
                if " " in name and not (column.primary and is_numeric(column)):
                    named[name].append((place, table.name, column.name))
    alike: set[tuple[Column, Column]] = set()
    for name in sorted(named):
        columns = sorted(named[name])
        if len({place for place, _, _ in columns}) <= limit:
            alike.update((a, b) for a, b in combinations(columns, 2) if a[0] != b[0])

    pairs: dict[tuple[int, int], list[tuple[int, int, Column, Column]]] = defaultdict(list)
    for a, b in sorted(alike | shared.keys()):
        n = len(shared.get((a, b), ()))
        same_name = words(a[2]) == words(b[2])
        much = n >= MIN_SHARED and n >= MIN_SHARE * min(sizes[a], sizes[b])
        if much or (a, b) in alike or (n and same_name):
            pairs[a[0], b[0]].append((-n, 0 if same_name else 1, a, b))
    ranked = sorted(pairs, key=lambda pair: (min(pairs[pair])[:2], pair))
    used: Counter[int] = Counter()
    kept: list[Relation] = []
    for pair in ranked:  # the pairs with most in common first, until a database has its share
        for _, _, a, b in sorted(pairs[pair])[:PER_PAIR]:
            if used[pair[0]] < PER_DATABASE and used[pair[1]] < PER_DATABASE:
                used.update(pair)
                kept.append(_compatible(databases, a, b, shared.get((a, b), [])))
    return sorted(kept, key=lambda relation: (relation.source, relation.target))


def _compatible(databases: Sequence[CorpusDatabase], a: Column, b: Column, common: Sequence[str]) -> Relation:
    left, right = f"{words(a[2])} of {words(a[1])}", f"{words(b[2])} of {words(b[1])}"
    if common:
        count = f"{len(common)} values" if len(common) > 1 else "1 value"
        text = f"{left} and {right} have {count} in common, such as {listed(common[:3])}"
        return Relation("compatible", a, b, text, "values found in both columns")
    text = f"{left} and {right} have the same name; values were not found in common"
    if synthetic(databases[a[0]]) or synthetic(databases[b[0]]):
        text = f"{left} and {right} have the same name; values were not compared"
    return Relation("compatible", a, b, text, "names of the two columns")
