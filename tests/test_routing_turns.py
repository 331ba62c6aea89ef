"""Transcripts: one row a turn, the same from the ledger as when the route was made, and refused where they would differ."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from routing_support import task, write_catalog

from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.client import open_model
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.routeenv.search import Catalog
from tasks_lib.routing.layer import route_turns
from tasks_lib.routing.replay import ReplayFailed, transcript
from tasks_lib.routing.routers import route
from tasks_lib.routing.rows import route_row
from tasks_lib.routing.turns import turn_rows, turns_suite
from tasks_lib.store.artifacts import ArtifactStore, conform, write_file
from tasks_lib.store.jobs import JobContext
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.quality import inspect
from tasks_lib.store.schemas import ROUTE_TURNS, ROUTES, TASKS

POLICY = BackendSpec(name="bm25", model="offline/bm25")
ONE = task("Which queen bee is the oldest?")


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("public")
    write_catalog(folder / "catalog")
    row = {"task_id": ONE.task_id, "corpus": "spider", "request": ONE.request, "allowlist": list(ONE.allowlist)}
    write_file(TASKS, folder / "tasks.parquet", [row])
    return folder


async def test_the_stored_calls_give_the_transcript_of_every_router(public: Path, tmp_path: Path) -> None:
    catalog = Catalog.load(public / "catalog")
    store, ledger = ArtifactStore(str(tmp_path / "store")), Ledger(f"sqlite:///{tmp_path}/ledger.db")
    frames = []
    for router in Router:
        outcome = await route(router, ONE, catalog, open_model(POLICY, ledger))
        store.write(ROUTES, f"routes-{router}", [route_row(POLICY.name, router, ONE.task_id, "", 0, outcome)])
        made = ledger.count("model_call")
        rows = await route_turns(
            JobContext(store, ledger), str(public), POLICY.model_dump(), router, 0, f"routes-{router}"
        )
        assert ledger.count("model_call") == made
        assert rows == turn_rows(POLICY.name, router, ONE.task_id, "", 0, outcome.transcript)
        assert [row["call_key"] for row in rows] == list(outcome.calls)
        assert [row["turn"] for row in rows] == list(range(1, outcome.turns + 1))
        if rows:
            assert rows[-1]["accepted"] is outcome.valid
            assert outcome.plan is not None
            assert rows[-1]["selected"] == list(outcome.plan.selected)
            assert rows[-1]["kind"] == ("final" if router in (Router.REACT, Router.HERMES) else "decision")
        frames.append(pl.from_arrow(conform(ROUTE_TURNS, rows)))
    whole = pl.concat([frame for frame in frames if isinstance(frame, pl.DataFrame)])
    assert set(whole["kind"]) == {"action", "final", "decision"}
    assert inspect([turns_suite(whole, whole.height)])[0].ok
    assert not inspect([turns_suite(whole.with_columns(kind=pl.lit("guess")), whole.height)])[0].ok
    ledger.close()


async def test_a_transcript_is_refused_where_the_ledger_or_the_route_is_another(public: Path, tmp_path: Path) -> None:
    catalog = Catalog.load(public / "catalog")
    ledger, empty = Ledger(f"sqlite:///{tmp_path}/ledger.db"), Ledger(f"sqlite:///{tmp_path}/empty.db")
    outcome = await route(Router.REACT, ONE, catalog, open_model(POLICY, ledger))
    row = route_row(POLICY.name, "react", ONE.task_id, "", 0, outcome)
    with pytest.raises(ReplayFailed, match="not in the ledger"):
        await transcript(row, POLICY, ONE, catalog, empty)
    with pytest.raises(ReplayFailed, match="observed"):
        await transcript({**row, "observed": ["db_66"]}, POLICY, ONE, catalog, ledger)
    ledger.close()
    empty.close()
