"""Opaque public ids of a release: keyed digests of private names, checked for collisions over everything issued.

Only the making of ids lives here. The identity map (which id stands for which database) is a private table of the release;
nothing in this module is written anywhere (PROTOCOL 1, 6; known fault K02).
"""

from __future__ import annotations

from enum import StrEnum

from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.store.keys import canonical_json, keyed_digest

HEX = 12
"""Hexadecimal places of an id: 48 bits, so 304 databases collide with probability below 2e-10."""


class Kind(StrEnum):
    """Prefix of an id by what it names."""

    DATABASE = "db"
    TABLE = "tb"
    COLUMN = "col"
    CAPABILITY = "cap"
    ENTITY = "ent"
    RELATION = "rel"
    EVIDENCE = "ev"


class IdCollision(RuntimeError):
    """Two different things would carry one public id."""


class Identities:
    """Public ids under one key. Same key and same names give the same ids in every process and machine.

    `key`: the secret salt of the release, or a digest derived from the release (then ids are opaque, not secret).
    Every id issued is remembered; a collision raises IdCollision. Not shared between threads.
    """

    def __init__(self, key: bytes) -> None:
        if not key:
            raise ValueError("Identities: the key is empty, expected at least one byte; pass the release's salt.")
        self._key = key
        self._issued: dict[str, str] = {}

    def _issue(self, kind: Kind, *parts: str) -> str:
        text = canonical_json([kind.value, *parts])
        public = f"{kind.value}_{keyed_digest(self._key, text)[:HEX]}"
        if self._issued.setdefault(public, text) != text:
            raise IdCollision(
                f"Public id {public} stands for two things: {self._issued[public]} and {text}; use another salt."
            )
        return public

    def database(self, corpus: Corpus | str, name: str) -> str:
        """`db_…` of a database instance. Corpora are scopes: one name in two corpora gives two ids."""
        return self._issue(Kind.DATABASE, Corpus(corpus).value, name)

    def table(self, corpus: Corpus | str, database: str, table: str) -> str:
        """`tb_…` of a table."""
        return self._issue(Kind.TABLE, Corpus(corpus).value, database, table)

    def column(self, corpus: Corpus | str, database: str, table: str, column: str) -> str:
        """`col_…` of a column."""
        return self._issue(Kind.COLUMN, Corpus(corpus).value, database, table, column)

    def capability(self, table_id: str, kind: str, text: str) -> str:
        """`cap_…` of one capability of a table."""
        return self._issue(Kind.CAPABILITY, table_id, kind, text)

    def entity(self, column_id: str, value: str) -> str:
        """`ent_…` of one value of a column."""
        return self._issue(Kind.ENTITY, column_id, value)

    def relation(self, kind: str, source_column_id: str, target_column_id: str) -> str:
        """`rel_…` of one relation between two columns."""
        return self._issue(Kind.RELATION, kind, source_column_id, target_column_id)

    def evidence(self, object_id: str) -> str:
        """`ev_…` of the statement about one public object (database, table, column, capability, entity or relation)."""
        return self._issue(Kind.EVIDENCE, object_id)
