"""The whole routing study against an endpoint that fails in every way it knows: it survives, and every request is accounted for.

The long version takes a few minutes: `pytest -s -m nightly tests/test_flows_misbehaving.py`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from misbehaving import LASTING, OUTAGES, TRANSIENT, Misbehaving, Seen, body_digest, misbehaving_server
from prefect import flow
from servers import ModelServer

from flows import runs
from flows.routing_study import compute_layers, routing_study
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.litellm_client import _wire
from tasks_lib.models.transcripts import FAILED, KIND, read_call
from tasks_lib.protocol.vocabulary import CallOutcome
from tasks_lib.store.artifacts import ArtifactStore
from tasks_lib.store.ledgers import Entry, Ledger, items
from tasks_lib.store.schemas import ROUTES, ROUTING_EPISODES

OUTCOME = {
    "empty": CallOutcome.EMPTY,
    "length": CallOutcome.TRUNCATED,
    "refused": CallOutcome.MODEL_REFUSED,
    "overflow": CallOutcome.CONTEXT_OVERFLOW,
    "rejected": CallOutcome.BAD_REQUEST,
}
"""What the client makes of a lasting fault; the others bring a reply to read."""
NO_USAGE = ("no_usage", "overflow", "rejected")
PAIRS = 2 * 6


def backends(url: str, deadline: float) -> list[BackendSpec]:
    """One backend for each protocol at the same server."""
    fields: dict[str, Any] = {"api_base": url, "concurrency": 16, "deadline_seconds": deadline}
    return [BackendSpec(name=p, model=f"hosted_vllm/{p}", protocol=p, **fields) for p in ("text", "native")]


def entries(ledger: Ledger, kind: str) -> list[Entry]:
    with ledger.engine.connect() as connection:
        keys = [row.key for row in connection.execute(items.select().where(items.c.kind == kind))]
    return list(ledger.get_many(keys).values())


def digest_of(ledger: Ledger, entry: Entry) -> str:
    """The digest of a stored call's request, as the server takes it."""
    call = read_call(ledger, entry.key)
    messages = [_wire(message) for message in call.messages]
    return body_digest({"model": entry.meta["backend"], "messages": messages, "tools": list(call.tools)})


def accounted(ledger: Ledger, log: list[Seen]) -> None:
    """Requests that the server saw are the attempts that the ledger tells of, in all and for every call that was answered."""
    kept = {entry.key: entry for entry in entries(ledger, KIND)}
    failed = entries(ledger, FAILED)
    assert sum(e.meta["attempts"] for e in (*kept.values(), *failed)) == len(log)
    told = Counter[str]()
    digests = {key: digest_of(ledger, entry) for key, entry in kept.items()}
    for key, entry in kept.items():
        told[digests[key]] += entry.meta["attempts"]
    for entry in failed:
        if entry.meta["call"] in digests:
            told[digests[entry.meta["call"]]] += entry.meta["attempts"]
    seen = Counter(s.digest for s in log)
    assert told == Counter({name: number for name, number in seen.items() if name in told})
    assert len(seen) - len(told) <= len({e.meta["call"] for e in failed} - set(kept))


def explained(ledger: Ledger, log: list[Seen], faults: tuple[str, ...]) -> None:
    """Every request came to one stored answer, with the outcome and the usage that belong to its fault."""
    stored, failed = entries(ledger, KIND), Counter(entry.outcome for entry in entries(ledger, FAILED))
    last = {seen.digest: seen for seen in log}
    found = Counter(seen.fault for seen in last.values())
    assert set(found) >= set(faults), "a fault was never met: take another seed or more tasks"
    assert len(stored) == len(last)
    expected = Counter[str]()
    for fault, number in found.items():
        expected[OUTCOME.get(fault, CallOutcome.OK).value] += number
    assert Counter(entry.outcome for entry in stored) == expected
    assert sum(entry.meta["prompt_tokens"] is None for entry in stored) == sum(found[fault] for fault in NO_USAGE)
    # A call that was not answered is on record with what ended it, and was asked again later.
    assert set(failed) <= {"provider_unavailable", "timeout", "rate_limited"}
    assert failed["provider_unavailable"] > 0
    assert "stuck" not in faults or failed["timeout"] > 0


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """A store and a ledger of the test's own."""
    monkeypatch.setenv("DSABENCH_STORE_URL", str(tmp_path / "store"))
    monkeypatch.setenv("DSABENCH_LEDGER_URL", f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    yield ledger
    ledger.close()


async def asked_in_two_runs(
    ledger: Ledger, faults: tuple[str, ...], percent: int, study: Callable[[str], Awaitable[tuple[int, list[str]]]]
) -> list[Seen]:
    """What the server saw of one study under an outage, one after it and one more. `study`: (pairs that are done, reasons) at a URL."""
    server: ModelServer
    behave: Misbehaving
    with misbehaving_server(faults=faults, percent=percent) as (server, behave):
        pairs, reasons = await study(server.url)
        assert 0 < pairs < PAIRS
        assert reasons
        assert all("provider_unavailable: " in reason or "timeout: " in reason for reason in reasons)
        accounted(ledger, behave.log)
        kept = {entry.key for entry in entries(ledger, KIND)}
        answered, before = {seen.digest for seen in behave.log if seen.answered}, len(behave.log)

        behave.outage_over = True
        assert await study(server.url) == (PAIRS, [])
        accounted(ledger, behave.log)
        assert kept <= {entry.key for entry in entries(ledger, KIND)}
        assert not answered & {seen.digest for seen in behave.log[before:]}, "a stored answer was asked for again"

        log = list(behave.log)
        assert await study(server.url) == (PAIRS, [])
        assert behave.log == log
    return log


def test_a_few_tasks_survive_every_fault(embedded: Path, own: Ledger) -> None:
    """The calls alone, without tables."""
    faults = (*TRANSIENT, "outage", *LASTING)

    async def routed(url: str) -> tuple[int, list[str]]:
        layers = await compute_layers(runs.spec_of(embedded, backends(url, 60.0), tasks=4), "here", 1, False)
        return len(layers.routes.get(0, {})), list(layers.missing.values())

    @flow
    async def study() -> list[Seen]:
        return await asked_in_two_runs(own, faults, 100, routed)

    explained(own, asyncio.run(study()), faults)


@pytest.mark.nightly
@pytest.mark.timeout(2400)
def test_the_study_over_40_tasks_survives_every_fault(embedded: Path, own: Ledger, tmp_path: Path) -> None:
    faults = (*TRANSIENT, *OUTAGES, *LASTING)
    records: list[dict[str, Any]] = []

    async def study(url: str) -> tuple[int, list[str]]:
        records.append(dict(await routing_study(str(embedded), backends(url, 120.0), tasks=40)))
        missing = records[-1]["reason"].removesuffix("; resume the run.")
        return records[-1]["pairs"], [missing] if missing else []

    log = asyncio.run(asked_in_two_runs(own, faults, 35, study))
    explained(own, log, faults)
    first, second, third = records
    assert (first["status"], second["status"], third["status"]) == ("incomplete", "completed", "completed")
    assert third | {"invocation": ""} == second | {"invocation": ""}
    store = ArtifactStore(str(tmp_path / "store"))
    assert store.read(ROUTING_EPISODES, second["routing_episodes_key"]).height == second["routing_episodes"]
    assert [store.read(ROUTES, key).height for key in second["routing_routes"].values()] == [40] * PAIRS
    sent = Counter(seen.fault for seen in log)
    print(f"{len(log)} requests of {len({seen.digest for seen in log})} calls, by fault: {dict(sorted(sent.items()))}")
