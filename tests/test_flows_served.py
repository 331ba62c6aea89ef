"""What `dsabench serve` offers: parameter schemas and deployments as recorded, strict parameters, and a real served run."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import DSABENCH, TFIDF
from misbehaving import misbehaving_server
from prefect import flow
from prefect.exceptions import ParameterTypeError
from pydantic import BaseModel, ConfigDict
from servers import ModelServer

from flows.serve import ServeError, check_defaults, declared, deployments
from tasks_lib.models.transcripts import KIND
from tasks_lib.store.ledgers import Ledger

SNAPSHOTS = Path(__file__).parent / "snapshots"
FLOWS = ("benchmark", "catalog", "cell", "factorial", "nightly", "report", "rescore", "routing_study")


def the_flow(name: str) -> Any:
    return getattr(importlib.import_module(f"flows.{name}"), name)


def matches_snapshot(name: str, value: Any) -> None:
    """Compare with the recorded JSON; DSABENCH_SNAPSHOTS=write records it anew."""
    path = SNAPSHOTS / name
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    if os.environ.get("DSABENCH_SNAPSHOTS") == "write":
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), f"{name} changed; if that is meant, record it with DSABENCH_SNAPSHOTS=write"


def test_parameter_schemas_are_as_recorded() -> None:
    matches_snapshot("flow_parameters.json", {n: the_flow(n).parameters.model_dump(exclude_none=True) for n in FLOWS})


def test_deployments_are_as_recorded() -> None:
    found = {}
    for made in deployments():
        limits = made.concurrency_options
        found[made.name] = {
            "flow": made.flow_name,
            "schedules": [
                {
                    "cron": planned.schedule.cron,
                    "timezone": planned.schedule.timezone,
                    "active": planned.active,
                }
                for planned in made.schedules or []
            ],
            "concurrency": None
            if limits is None
            else {"limit": made.concurrency_limit, "strategy": limits.collision_strategy.value},
            "parameters": made.parameters,
            "tags": sorted(made.tags),
        }
    assert set(found) == set(declared()) == set(FLOWS)
    matches_snapshot("deployments.json", found)


@pytest.mark.parametrize("value", ["7", 7.0, True, -1], ids=repr)
@pytest.mark.parametrize("name", ["nightly", "factorial", "routing_study"])
def test_a_count_must_be_a_whole_number(name: str, value: object) -> None:
    with pytest.raises(ParameterTypeError, match="tasks"):
        the_flow(name).validate_parameters({"tasks": value})


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("nightly", "backends", "claude"),
        ("nightly", "backends", ["claude"]),
        ("factorial", "backends", [{"name": "x"}]),
        ("factorial", "backends", [{**TFIDF, "concurrency": "4"}]),
        ("factorial", "backends", [{**TFIDF, "kontext": 4}]),
        ("factorial", "judge", "off"),
        ("factorial", "evidence", "off"),
        ("factorial", "tasks", "x"),
        ("factorial", "release", 7),
        ("benchmark", "seed", "7"),
        ("benchmark", "seed", True),
        ("benchmark", "profile", "big"),
        ("cell", "run", "x"),
        ("cell", "cell_id", ""),
        ("report", "run", False),
        ("rescore", "run", 7),
        ("routing_study", "transcripts", "off"),
        ("routing_study", "transcripts", 1),
        ("catalog", "release", True),
    ],
)
def test_a_parameter_of_another_type_is_refused_by_name(name: str, parameter: str, value: object) -> None:
    """Known fault P07: nothing is read as something else, an "off" least of all."""
    given = {"run": "run-0123456789ab", "cell_id": "x"} if name == "cell" else {}
    with pytest.raises(ParameterTypeError, match=parameter):
        the_flow(name).validate_parameters({**given, parameter: value})


def test_an_unknown_parameter_is_refused_by_name() -> None:
    from prefect.exceptions import SignatureMismatchError

    with pytest.raises((ParameterTypeError, SignatureMismatchError), match="taks"):
        the_flow("nightly").validate_parameters({"taks": 3})


class Inner(BaseModel):
    model_config = ConfigDict(strict=True)
    n: int = 3


def test_a_default_its_own_type_refuses_fails_at_deployment() -> None:
    @flow(name="none-for-a-list")
    def none_for_a_list(names: list[str] = None) -> None:  # type: ignore[assignment]  # noqa: RUF013
        pass

    @flow(name="text-for-a-count")
    def text_for_a_count(n: int = "3") -> None:  # type: ignore[assignment]
        pass

    @flow(name="good")
    def good(n: int = 3, names: list[str] | None = None, inner: Inner = Inner()) -> None:  # noqa: B008
        pass

    with pytest.raises(ServeError, match=r"none-for-a-list.*None.*names"):
        check_defaults(none_for_a_list)
    with pytest.raises(ServeError, match=r"text-for-a-count.*'3'.*parameter n "):
        check_defaults(text_for_a_count)
    check_defaults(good)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(what: str, check: Any, process: subprocess.Popen[bytes], seconds: float) -> Any:
    """Poll until `check` gives something; fails with what was waited for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, f"dsabench serve ended with {process.returncode} before {what}"
        if found := check():
            return found
        time.sleep(0.5)
    raise AssertionError(f"no {what} within {seconds} s")


async def submit_and_wait(api: str, deployment: str, parameters: dict[str, Any], seconds: float) -> Any:
    """Run a deployment by its name with parameters, through the API alone; the finished flow run."""
    from prefect.client.orchestration import PrefectClient

    async with PrefectClient(api) as client:
        found = await client.read_deployment_by_name(deployment)
        run = await client.create_flow_run_from_deployment(found.id, parameters=parameters)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            run = await client.read_flow_run(run.id)
            if run.state is not None and run.state.is_final():
                return run
            await asyncio.sleep(0.5)
    raise AssertionError(f"{deployment} is still {run.state} after {seconds} s")


async def served_names(api: str) -> set[str]:
    from prefect.client.orchestration import PrefectClient

    async with PrefectClient(api) as client:
        return {d.name for d in await client.read_deployments()}


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


@pytest.fixture
def models() -> Iterator[ModelServer]:
    """An endpoint that routes for every model name."""
    with misbehaving_server(faults=()) as (server, _):
        yield server


@pytest.mark.timeout(400)
def test_a_served_deployment_runs_a_new_backend_given_as_a_parameter(
    embedded: Path, tmp_path: Path, models: ModelServer
) -> None:
    port = free_port()
    api = f"http://127.0.0.1:{port}/api"
    log = tmp_path / "serve.log"
    environment = {k: v for k, v in os.environ.items() if k not in ("PREFECT_API_URL", "PREFECT_LOGGING_LEVEL")}
    environment |= {
        "PREFECT_HOME": str(tmp_path / "prefect"),
        # A store of its own, so that the run has something to do whatever ran before.
        "DSABENCH_STORE_URL": str(tmp_path / "store"),
        "DSABENCH_LEDGER_URL": f"sqlite:///{tmp_path / 'ledger.sqlite'}",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(DSABENCH), "serve", "--port", str(port)],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    family: list[psutil.Process] = []
    try:
        wait_for("answer of the server", lambda: answers(f"{api}/health"), process, 150)
        wait_for("served deployments", lambda: asyncio.run(served_names(api)) == set(FLOWS), process, 60)
        backend = {"name": "second", "model": "offline/bm25", "temperature": None}
        factorial = {"release": str(embedded), "backends": [backend], "tasks": 2}
        endpoint = {"name": "never-heard-of", "model": "hosted_vllm/never-heard-of", "api_base": models.url}
        study = {"release": str(embedded), "backends": [endpoint], "tasks": 1, "transcripts": False}

        async def both() -> list[Any]:
            return await asyncio.gather(
                submit_and_wait(api, "factorial/factorial", factorial, 240),
                submit_and_wait(api, "routing_study/routing_study", study, 240),
            )

        for run in asyncio.run(both()):
            assert run.state.is_completed(), f"{run.state}\n{log.read_text()[-3000:]}"
        # A model behind an endpoint needs no more than that either: nothing but the parameter names it.
        assert {body["model"] for body in models.requests} == {"never-heard-of"}
        calls = Ledger(environment["DSABENCH_LEDGER_URL"])
        assert sum(meta["attempts"] for meta in calls.metas(KIND) if meta["backend"] == "never-heard-of") == len(
            models.requests
        )
        calls.close()
        records = list((Path(os.environ["DSABENCH_HOME"]) / "runs").glob("run-*/run.json"))
        mine = [r for r in (json.loads(p.read_text()) for p in records) if r["spec"]["backends"][0]["name"] == "second"]
        assert [(r["status"], r["cells"]) for r in mine] == [("completed", 72)]
    finally:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        finally:
            _, alive = psutil.wait_procs(family, timeout=20)
            for left in alive:
                left.kill()
    assert not alive, f"left after SIGINT: {[p.cmdline() for p in alive]}"
    assert not answers(f"{api}/health")
    assert "Traceback" not in log.read_text()


def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    """Another server answering on the port is never taken for ours."""
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    class Healthy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Healthy)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        environment = {k: v for k, v in os.environ.items() if k != "PREFECT_API_URL"}
        done = subprocess.run(
            [str(DSABENCH), "serve", "--port", str(server.server_port)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 2
    assert f"port {server.server_port}" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_p07_parameters_of_a_deployment_are_checked_when_it_is_made() -> None:
    from flows.serve import ServeError, deployments

    with pytest.raises(ServeError, match="tasks"):
        deployments({"nightly": {"flow": "flows.nightly:nightly", "parameters": {"tasks": "7"}}})


def test_the_shipped_deployments_can_be_made() -> None:
    """Required parameters are filled in by whoever starts a run, not by the file."""
    from flows.serve import declared, deployments

    assert {d.name for d in deployments()} == set(declared())
