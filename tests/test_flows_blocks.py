"""A backend saved as a block: picked by reference, its key sent to the endpoint and written nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import HOME
from prefect import flow
from prefect.exceptions import ParameterTypeError
from pydantic import SecretStr
from servers import model_server, says

from flows.blocks import AnyBackend, Backend, opened
from flows.routing_study import routing_study
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.chat import BackendMisconfigured, ChatRequest, Message
from tasks_lib.models.client import open_model
from tasks_lib.models.keys import key_of
from tasks_lib.protocol.records import CallContext
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.store.ledgers import Ledger

KEY = "sk-never-written-0123456789"


@flow(name="asks-once")
async def asks_once(url: str, backends: list[AnyBackend]) -> list[str]:
    """What the study does with backends, in small: take them, open a model, send one call through a ledger."""
    with opened(backends) as (specs, _):
        ledger = Ledger(url)
        try:
            models = [open_model(spec, ledger) for spec in specs]
            request = ChatRequest((Message("user", "q"),))
            return [(await m.chat(request, CallContext(Audience.ROUTER, "routes"))).text for m in models]
        finally:
            ledger.close()


def written(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.rglob("*")) if p.is_file() and KEY.encode() in p.read_bytes()]


def test_a_block_has_the_fields_of_a_spec_and_a_key() -> None:
    assert set(Backend.model_fields) == {*BackendSpec.model_fields} - {"name"} | {"api_key"}
    defaults = BackendSpec(name="x", model="m")
    unsaved = Backend(model="m")
    assert {f: getattr(unsaved, f) for f in BackendSpec.model_fields if f != "name"} == defaults.model_dump(
        exclude={"name"}
    )
    with pytest.raises(BackendMisconfigured, match="save it under a name"):
        unsaved.spec()


async def test_the_key_of_a_block_reaches_the_endpoint_and_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with model_server(says("fine")) as server:
        block = Backend(model="hosted_vllm/stub", api_base=server.url, api_key=SecretStr(KEY))
        await block.save("picked-backend", overwrite=True)
        reference = {"$ref": {"block_document_id": str(block._block_document_id)}}
        given: dict[str, Any] = {"url": f"sqlite:///{tmp_path / 'l.sqlite'}", "backends": [reference]}
        # As a served run gets them: parameters are JSON with a reference, resolved when the run starts.
        found = asks_once.validate_parameters(json.loads(json.dumps(given)))
        assert await asks_once(**found) == ["fine"]
        assert [headers["authorization"] for headers in server.headers_seen] == [f"Bearer {KEY}"]
        study = routing_study.validate_parameters({"backends": [reference]})["backends"]
        assert [backend.spec().name for backend in study] == ["picked-backend"]
    assert key_of("picked-backend") is None
    assert (written(tmp_path), written(HOME)) == ([], [])
    assert (tmp_path / "l.sqlite").exists()
    said = capfd.readouterr()
    assert KEY not in said.out + said.err + repr(block)


async def test_a_value_out_of_range_names_the_block_and_the_field() -> None:
    block = Backend(model="m", concurrency=0)
    await block.save("bad-backend", overwrite=True)
    with pytest.raises(BackendMisconfigured, match="Block bad-backend: concurrency is 0"):
        block.spec()


def test_a_written_out_backend_is_still_a_strict_spec() -> None:
    good = routing_study.validate_parameters({"backends": [{"name": "x", "model": "m"}]})["backends"]
    assert good == [BackendSpec(name="x", model="m")]
    with pytest.raises(ParameterTypeError, match="backends"):
        routing_study.validate_parameters({"backends": [{"model": "m", "api_key": KEY}]})
