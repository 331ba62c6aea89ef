"""Ledger files: out and in without loss, nothing overwritten, and a study scored again from a file with the endpoint gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import Said
from servers import model_server, says

from tasks_lib.models.transcripts import plain_bytes
from tasks_lib.store.ledger_files import LedgerFileRefused, export_ledger, import_ledger
from tasks_lib.store.ledgers import Lease, Ledger, Produced, blob_of


def made(path: Path, run: str = "run-1:a") -> Ledger:
    return Ledger(f"sqlite:///{path}", run=run)


def put(ledger: Ledger, key: str, kind: str, produced: Produced) -> None:
    lease = ledger.acquire(key, kind)
    assert isinstance(lease, Lease)
    ledger.complete(lease, produced)


def filled(path: Path) -> Ledger:
    """Two calls that share a message, one with bytes that are no text, and an item of another kind."""
    ledger = made(path)
    shared, other = blob_of(b"shared message"), blob_of(bytes(range(256)))
    for n, blobs in enumerate(([shared], [shared, other])):
        payload = plain_bytes({"request": {"messages": [name for name, _ in blobs]}, "n": n})
        put(ledger, f"{n:064}", "model_call", Produced("ok", payload, {"layer": "routes", "cost": None}, dict(blobs)))
    put(ledger, f"{9:064}", "sql", Produced("ok", b"rows"))
    return ledger


def test_out_and_in_without_loss(tmp_path: Path) -> None:
    first = filled(tmp_path / "a.sqlite")
    file = tmp_path / "calls.parquet"
    assert export_ledger(first, file, ("model_call",)) == {"items": 2, "blobs": 2}
    second = made(tmp_path / "b.sqlite", "elsewhere")
    assert import_ledger(second, file) == {"items": 2, "already_there": 0, "blobs": 2}
    assert import_ledger(second, file) == {"items": 0, "already_there": 2, "blobs": 0}
    keys = [f"{n:064}" for n in (0, 1, 9)]
    assert second.get_many(keys) == {k: e for k, e in first.get_many(keys).items() if e.kind == "model_call"}
    assert second.blob(blob_of(bytes(range(256)))[0]) == bytes(range(256))
    export_ledger(second, tmp_path / "again.parquet", ("model_call",))
    assert pq.read_table(tmp_path / "again.parquet").equals(pq.read_table(file))
    assert export_ledger(first, tmp_path / "none.parquet", ("model_call",), "run-2") == {"items": 0, "blobs": 0}


def test_another_result_for_one_key_imports_nothing(tmp_path: Path) -> None:
    filled(tmp_path / "a.sqlite")
    file = tmp_path / "calls.parquet"
    export_ledger(filled_again := made(tmp_path / "a.sqlite"), file, ("model_call",))
    filled_again.close()
    second = made(tmp_path / "b.sqlite")
    put(second, f"{1:064}", "model_call", Produced("ok", b"{}"))
    with pytest.raises(LedgerFileRefused, match="another model_call for 000000000000… than the ledger"):
        import_ledger(second, file)
    assert second.count("model_call") == 1


def test_an_item_in_flight_here_is_taken_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "calls.parquet"
    export_ledger(filled(tmp_path / "a.sqlite"), file, ("model_call",))
    second = made(tmp_path / "b.sqlite")
    lease = second.acquire(f"{0:064}", "model_call")
    assert isinstance(lease, Lease)
    second.abandon(lease)
    assert import_ledger(second, file)["items"] == 2


def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "calls.parquet"
    export_ledger(filled(tmp_path / "a.sqlite"), file, ("model_call",))
    table = pq.read_table(file)
    rows = table.to_pylist()
    rows[-1]["data"] += b"!"
    pq.write_table(table.from_pylist(rows, table.schema), tmp_path / "damaged.parquet")
    pq.write_table(table.drop_columns(["run"]), tmp_path / "foreign.parquet")
    (tmp_path / "text.parquet").write_text("no parquet")
    second = made(tmp_path / "b.sqlite")
    for name, reason in (("damaged", "is damaged: blob"), ("foreign", "another layout"), ("text", "cannot be read")):
        with pytest.raises(LedgerFileRefused, match=reason):
            import_ledger(second, tmp_path / f"{name}.parquet")
    assert second.count("model_call") == 0


@pytest.mark.timeout(300)
def test_published_calls_score_again_without_the_endpoint(
    dsabench: Callable[..., Said], tmp_path: Path, embedded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study, its calls as a file, the same study from an empty store with the server gone: equal tables, no call."""

    def move_to(name: str) -> None:
        monkeypatch.setenv("DSABENCH_STORE_URL", str(tmp_path / name))
        monkeypatch.setenv("DSABENCH_LEDGER_URL", f"sqlite:///{tmp_path / name}.sqlite")

    file = tmp_path / "calls.parquet"
    move_to("one")
    with model_server(says("no route")) as server:
        spec = f'{{"name": "stub", "model": "hosted_vllm/stub", "api_base": "{server.url}"}}'
        study = ["routing-study", "--release", str(embedded), "--backend", spec, "--tasks", "2", "--json"]
        first = dsabench(*study)
        assert first.code == 0, first
        sent = len(server.requests)
        assert sent > 0
    out = dsabench("ledger", "export", "--out", str(file), "--json")
    assert out.json["items"] >= sent
    move_to("two")
    done = dsabench("ledger", "import", str(file), "--json")
    assert (done.code, done.json["items"]) == (0, out.json["items"])
    again = dsabench(*study)
    assert (again.code, again.json["status"]) == (0, "completed"), again
    assert again.json["routing_metrics_key"] == first.json["routing_metrics_key"]


def test_a_file_that_is_not_there_is_one_sentence(dsabench: Callable[..., Said], tmp_path: Path) -> None:
    said = dsabench("ledger", "import", str(tmp_path / "none.parquet"), "--json")
    assert (said.code, said.json["status"]) == (2, "failed")
    assert "expected a file of `dsabench ledger export`" in said.json["error"]
