"""Public ids are keyed, corpus-scoped, stable in every process and free of collisions (known fault K02)."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest

from tasks_lib.catalog import identities as module
from tasks_lib.catalog.identities import IdCollision, Identities
from tasks_lib.catalog.wording import Hider

NAMES = [["spider", "world_1"], ["bird", "world_1"], ["spider", "car_1"]]
PROGRAM = """
import json, sys
from tasks_lib.catalog.identities import Identities
from tasks_lib.catalog.wording import Hider
ids = Identities(b"salt")
print(json.dumps([ids.database(c, n) for c, n in json.loads(sys.argv[1])]))
"""


def issued_in_new_process(seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(NAMES)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    result: list[str] = json.loads(done.stdout)
    return result


def test_same_ids_in_two_processes_and_none_guessable() -> None:
    first, second = issued_in_new_process("0"), issued_in_new_process("1")
    assert first == second
    assert len(set(first)) == 3
    for (corpus, name), public in zip(NAMES, first, strict=True):
        bare = public.removeprefix("db_")
        for text in (name, f"{corpus}:{name}", f"{corpus}.{name}", f"{corpus}{name}"):
            for algorithm in ("md5", "sha1", "sha256"):
                assert bare not in hashlib.new(algorithm, text.encode()).hexdigest()
        assert name not in public
    ids = Identities(b"another salt")
    assert not set(first) & {ids.database(c, n) for c, n in NAMES}


def test_a_registry_of_304_instances_under_303_names_has_304_ids_in_no_order_of_names() -> None:
    instances = [("spider", f"source_{i:03}") for i in range(166)]
    instances += [("bird", f"place_{i:03}") for i in range(119)] + [("bird", "source_007")]
    instances += [("livesqlbench", f"live_{i:03}") for i in range(18)]
    assert (len(instances), len({n for _, n in instances})) == (304, 303)
    ids = Identities(b"salt")
    public = [ids.database(c, n) for c, n in instances]
    assert len(set(public)) == 304
    assert public != sorted(public)
    assert [ids.database(c, n) for c, n in reversed(instances)] == public[::-1]


def test_every_kind_of_id_has_its_prefix_and_twelve_hexadecimal_places() -> None:
    ids = Identities(b"salt")
    db, tb = ids.database("spider", "a"), ids.table("spider", "a", "t")
    col = ids.column("spider", "a", "t", "c")
    made = [
        db,
        tb,
        col,
        ids.capability(tb, "count", "x"),
        ids.entity(col, "v"),
        ids.relation("foreign_key", col, col),
        ids.evidence(tb),
    ]
    assert [m.split("_")[0] for m in made] == ["db", "tb", "col", "cap", "ent", "rel", "ev"]
    assert all(len(m.split("_")[1]) == 12 and int(m.split("_")[1], 16) >= 0 for m in made)


def test_parts_are_kept_apart() -> None:
    ids = Identities(b"salt")
    assert ids.table("spider", "a", "b_c") != ids.table("spider", "a_b", "c")
    assert ids.column("spider", "a", "b", "c.d") != ids.column("spider", "a", "b.c", "d")


def test_a_collision_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEX", 1)
    ids = Identities(b"salt")
    with pytest.raises(IdCollision, match="stands for two things"):
        [ids.database("spider", f"n{i}") for i in range(17)]


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(ValueError, match="key is empty"):
        Identities(b"")


def test_physical_names_are_hidden_where_they_can_be_told() -> None:
    """Known fault K01: meanings of columns quote names such as `disney.characters`; a plain word alone stays a word."""
    hide = Hider(["plainfilms", "wta_1", "geo"])
    assert hide("See PlainFilms.cast and geo.borders.") == "See PlainFilms cast and geo borders."
    assert hide("Matches of wta_1, in 3.5 sets.") == "Matches of wta 1, in 3.5 sets."
    assert hide("The geo. A file x.geo.y") == "The geo. A file x.geo.y"
