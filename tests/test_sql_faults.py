"""Engine messages lose physical names before a model sees them."""

from __future__ import annotations

from tasks_lib.sql.faults import scrub


def test_names_and_paths_become_public_ids() -> None:
    names = {"pets": "db_1", "/data/pets/pets.sqlite": "db_1", "pets_2": "db_2"}
    message = "near /data/pets/pets.sqlite: PETS.x, pets_2.y, carpets, pets_3"
    assert scrub(message, names) == "near db_1: db_1.x, db_2.y, carpets, pets_3"
    assert scrub(message, {}) == message
    assert scrub("a.b", {"a.b": "\\1"}) == "\\1"
