"""A new or changed database costs its own vectors and its own words; nothing of the others is computed again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from catalog_support import ferries, publish

from tasks_lib.models import embeddings
from tasks_lib.routeenv import parts
from tasks_lib.routeenv.rows import CatalogRows
from tasks_lib.routeenv.search import Catalog


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSABENCH_HOME", str(tmp_path / "home"))
        embeddings.forget()
        yield


def test_only_the_new_and_the_changed_database_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    databases = [ferries(tmp_path, f"d_{i}", port=f"Port{i}") for i in range(3)]
    first = Catalog.load(publish(databases, tmp_path / "first"))
    assert first.search("depth of a harbour", first.ids, 3)

    embedded: list[str] = []
    read: list[str] = []
    compute, take_apart = embeddings._compute, parts.read

    def computed(texts: Sequence[str]) -> list[embeddings.Vectors]:
        embedded.extend(texts)
        return compute(texts)

    def taken_apart(catalog: CatalogRows, name: str) -> parts.Part:
        read.append(name)
        return take_apart(catalog, name)

    monkeypatch.setattr(embeddings, "_compute", computed)
    monkeypatch.setattr(parts, "read", taken_apart)

    changed = [
        replace(databases[0], title="Records of lighthouses"),
        *databases[1:],
        ferries(tmp_path, "d_3", port="Oslam"),
    ]
    folder = publish(changed, tmp_path / "second")
    known = {card["text"] for card in first.cards}
    second = Catalog.load(folder).following(first)
    assert set(embedded) == {card["text"] for card in second.cards} - known
    assert 0 < len(embedded) < len(second.cards) / 1.5

    again = Catalog.load(folder)
    found = second.lexical(["lighthouses of Oslam"])
    assert set(read) == {
        n for n in second.ids if n not in first.databases or "lighthouses" in second.databases[n]["summary"]
    }
    assert len(read) == 2
    assert np.array_equal(found, again.lexical(["lighthouses of Oslam"])), "as if all had been read anew"
    assert len(read) == 2 + 4
