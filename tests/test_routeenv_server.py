"""RouteEnv over HTTP: episodes with a budget, routes recorded as they come, one sentence for a bad request, no private byte."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Said

from flows.routeenv_server import open_server
from tasks_lib.evaluation.inputs import load
from tasks_lib.evaluation.predictions import RouteLine, read_lines
from tasks_lib.protocol.vocabulary import Audience
from tasks_lib.routeenv.server import TURNS, RouteEnvServer
from tasks_lib.store.settings import PROJECT_ROOT

pytestmark = pytest.mark.timeout(300)
Command = Callable[..., Said]


class Client:
    """Requests to a server over one connection; `seen` keeps every body."""

    def __init__(self, server: RouteEnvServer) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
        self.seen: list[str] = []

    def ask(
        self, method: str, path: str, body: Any = None, raw: bytes | None = None, **headers: str
    ) -> tuple[int, Any]:
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        self.seen.append(text)
        return answer.status, json.loads(text)

    def good(self, method: str, path: str, body: Any = None) -> Any:
        status, said = self.ask(method, path, body)
        assert status == 200, said
        return said

    def open(self, task_id: str, **more: str) -> str:
        return f"/v1/sessions/{self.good('POST', '/v1/sessions', {'task_id': task_id, **more})['session']}"


@pytest.fixture
def server(embedded: Path, tmp_path: Path) -> Iterator[RouteEnvServer]:
    made = open_server(str(embedded), tmp_path / "routes.jsonl", 0)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def plan(*databases: str, **more: Any) -> dict[str, Any]:
    nodes = [{"database_id": d, "information_request": "its part"} for d in databases]
    execution = {"topology": "single", "nodes": nodes, "edges": []}
    return {
        "selected_databases": list(databases),
        "execution_plan": execution,
        "evidence_ids": [],
        "confidence": 1,
        **more,
    }


def test_the_example_agent_is_served_and_its_file_scored(
    embedded: Path, server: RouteEnvServer, dsabench: Command, tmp_path: Path
) -> None:
    agent = PROJECT_ROOT / "deployments" / "example_agent.py"
    done = subprocess.run(
        [sys.executable, str(agent), server.url], capture_output=True, text=True, timeout=120, check=True
    )
    tasks = len(load(str(embedded)).tasks)
    assert done.stdout == f"{tasks} of {tasks} routes accepted\n"
    said = dsabench("score", "--release", str(embedded), "--routes", str(tmp_path / "routes.jsonl"), "--json")
    assert said.code == 0, said
    assert (said.json["routes"], said.json["invalid_routes"]) == (tasks, 0)
    assert said.json["routing"]["RA-Set"] > 0


def test_an_episode_has_a_budget_a_transcript_and_one_recorded_end(server: RouteEnvServer, tmp_path: Path) -> None:
    client = Client(server)
    task = client.good("GET", "/v1/tasks")["tasks"][0]
    place = client.open(task["task_id"])
    found = client.good("POST", f"{place}/call", {"action": "search_catalog", "arguments": {"query": task["request"]}})
    assert (found["error"], found["turns_left"]) == ("", TURNS - 1)
    refused = client.good("POST", f"{place}/route", {"plan": plan(task["allowlist"][0], evidence_ids=["ev_invented"])})
    assert (refused["accepted"], refused["turns_left"]) == (False, TURNS - 2)
    assert "not observed in this episode" in refused["reason"]
    good = plan(found["database_ids"][0], evidence_ids=found["evidence_ids"][:1])
    other = client.open(task["task_id"])
    assert client.good("POST", f"{place}/route", {"plan": good})["accepted"]
    told = client.good("GET", place)
    assert (told["closed"], told["refused_routes"], len(told["transcript"])) == (True, 1, 1)
    assert client.ask("POST", f"{place}/route", {"plan": good})[0] == 409
    assert client.ask("POST", f"{other}/route", {"plan": plan(found["database_ids"][0])})[0] == 409
    assert client.ask("POST", "/v1/sessions", {"task_id": task["task_id"]})[0] == 409
    branch = client.open(task["task_id"], branch_id="b")
    for left in range(TURNS - 1, -1, -1):
        said = client.good("POST", f"{branch}/call", {"action": "no_such", "arguments": {}})
        assert said["turns_left"] == left
    assert client.ask("POST", f"{branch}/call", {"action": "no_such", "arguments": {}})[0] == 409
    first, second = read_lines(tmp_path / "routes.jsonl", RouteLine)
    assert (first.plan, first.turns, first.observed) == (good, 3, found["database_ids"])
    assert (second.branch_id, second.plan, second.turns) == ("b", None, TURNS)


def test_bad_requests_get_a_sentence(server: RouteEnvServer, embedded: Path, tmp_path: Path) -> None:
    client = Client(server)
    place = client.open(client.good("GET", "/v1/tasks")["tasks"][0]["task_id"])
    for status, method, path, body in (
        (404, "GET", "/", None),
        (404, "POST", "/v1/tasks", {}),
        (404, "POST", "/v1/sessions", {"task_id": "task_none"}),
        (404, "POST", "/v1/sessions", {"task_id": ["x"]}),
        (400, "POST", "/v1/sessions", [1]),
        (400, "POST", "/v1/sessions", {"task_id": "t", "gold": True}),
        (404, "POST", "/v1/sessions/none/call", {"action": "x", "arguments": {}}),
        (400, "POST", f"{place}/call", {"action": "search_catalog"}),
        (400, "POST", f"{place}/route", {}),
    ):
        got, said = client.ask(method, path, body)
        assert (got, set(said)) == (status, {"error"}), (path, body, said)
        assert said["error"].endswith("."), said
    for action, arguments in (("search_catalog", []), (None, {}), ("inspect_database", {"database_id": "db_none"})):
        assert client.good("POST", f"{place}/call", {"action": action, "arguments": arguments})["error"]
    assert not client.good("POST", f"{place}/route", {"plan": "a string"})["accepted"]
    assert client.ask("POST", "/v1/sessions", raw=b"{")[0] == 400
    assert client.ask("POST", "/v1/sessions", raw=b"\xff")[0] == 400
    assert client.ask("POST", "/v1/sessions", raw=b"[" * 100_000)[0] == 400
    assert client.ask("GET", "/v1/tasks", Host="elsewhere.example:80")[0] == 403
    (tmp_path / "odd.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="line 1 is no recorded route"):
        open_server(str(embedded), tmp_path / "odd.jsonl", 0)


def test_hundreds_of_sessions_share_the_index_and_no_byte_is_private(server: RouteEnvServer, embedded: Path) -> None:
    """Known fault K01: what an agent outside is sent is scanned as what a router is shown."""
    first = Client(server)
    tasks = first.good("GET", "/v1/tasks")["tasks"]
    first.good("GET", "/v1/tools")
    opened = [(tasks[i % len(tasks)], first.open(tasks[i % len(tasks)]["task_id"])) for i in range(300)]

    def episode(item: tuple[dict[str, Any], str]) -> list[str]:
        task, place = item
        client = Client(server)
        seen = client.good(
            "POST", f"{place}/call", {"action": "search_catalog", "arguments": {"query": task["request"][:200]}}
        )
        assert set(seen["database_ids"]) <= set(task["allowlist"])
        client.good(
            "POST",
            f"{place}/call",
            {"action": "load_database_skill", "arguments": {"database_id": task["allowlist"][0]}},
        )
        assert client.good("GET", place)["transcript"][0]["observation"] == seen["observation"]
        return client.seen

    with ThreadPoolExecutor(50) as pool:
        texts = [text for found in pool.map(episode, opened) for text in found]
    scanner = load(str(embedded)).scanner
    findings = [f for text in {*first.seen, *texts} for f in scanner.scan(text, Audience.ROUTER)]
    assert findings == []


def test_a_server_started_again_goes_on(server: RouteEnvServer, embedded: Path, tmp_path: Path) -> None:
    client = Client(server)
    task = client.good("GET", "/v1/tasks")["tasks"][0]
    client.good("POST", f"{client.open(task['task_id'])}/route", {"plan": None})
    again = open_server(str(embedded), tmp_path / "routes.jsonl", 0)
    again.server_close()
    assert again.host.recorded == {(task["task_id"], "")}
