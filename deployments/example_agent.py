"""An agent in 40 lines: searches the catalog, routes to the best match, hands the route in. Start `dsabench routeenv serve` first.

python deployments/example_agent.py http://127.0.0.1:8765
dsabench score --routes routes.jsonl --name example
"""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any


def send(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def route(server: str, task: dict[str, Any]) -> bool:
    opened = send(f"{server}/v1/sessions", {"task_id": task["task_id"]})
    session = f"{server}/v1/sessions/{opened['session']}"
    search = {"action": "search_catalog", "arguments": {"query": task["request"], "top_k": 3}}
    seen = send(f"{session}/call", search)
    best = seen["database_ids"][0] if seen["database_ids"] else task["allowlist"][0]
    node = {"database_id": best, "information_request": task["request"]}
    plan = {
        "selected_databases": [best],
        "execution_plan": {"topology": "single", "nodes": [node], "edges": []},
        "evidence_ids": seen["evidence_ids"][:1],
        "confidence": 0.5,
    }
    return bool(send(f"{session}/route", {"plan": plan})["accepted"])


if __name__ == "__main__":
    tasks = send(f"{sys.argv[1]}/v1/tasks")["tasks"]
    print(sum(route(sys.argv[1], task) for task in tasks), "of", len(tasks), "routes accepted")
