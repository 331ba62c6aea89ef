"""A loopback model that routes, and misbehaves on command: what it does follows from a request's digest alone, never from time.

Its good answers come from the messages: it searches, inspects what it found, and hands in databases with evidence it was shown.
A fault of the moment (transient) hits the first requests of a digest and then gives way to the answer that belongs to it, so a
study killed and run again meets the same answers. Every request is kept with its digest and what was done with it.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from servers import ModelServer, Stub, model_server

from tasks_lib.store.keys import digest

NONE = "none"
TRANSIENT = ("rate_limited", "storm", "cut")
"""429 with Retry-After once; 503 for two requests; a reply cut off once: one call gets through."""
OUTAGES = ("stuck", "outage")
"""No answer before the deadline, once; 503 for as many requests as one call sends: one call does not get through, a later one does."""
LASTING = ("slow", "two_calls", "bad_json", "markup", "empty", "length", "no_usage", "refused", "overflow", "rejected")
"""A reply that belongs to the request, now and whenever it is asked again."""
LENGTH = {"storm": 2, "outage": 3}
"""Requests of one digest that a fault of the moment swallows, where it is not one."""


def body_digest(body: Mapping[str, Any]) -> str:
    """sha256 hex of what a request asks: model, messages and tools."""
    messages = [{k: v for k, v in message.items() if v is not None} for message in body["messages"]]
    tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    return digest({"model": body["model"], "messages": messages, "tools": tools})


def _between(text: str, name: str) -> str:
    found = re.search(rf"<{name}>\n(.*?)\n</{name}>", text, re.DOTALL)
    return found.group(1) if found else ""


def _plan(evidence: Mapping[str, list[str]], chosen: list[str], request: str) -> dict[str, Any]:
    return {
        "selected_databases": chosen,
        "execution_plan": {
            "topology": "single" if len(chosen) == 1 else "parallel",
            "nodes": [{"database_id": d, "information_request": f"{request} (the part of {d})"} for d in chosen],
            "edges": [],
        },
        "evidence_ids": [evidence[d][0] for d in chosen],
        "confidence": 0.5,
    }


def decision(prompt: str, number: int) -> dict[str, Any]:
    """The route of a router with a fixed schedule: one or two of the databases whose evidence is listed."""
    listed = [line.split(": ") for line in _between(prompt, "valid_evidence").splitlines()]
    evidence = {database: ids.split() for database, ids in listed}
    names = sorted(evidence)
    chosen = [names[(number + i) % len(names)] for i in range(min(len(names), 1 + number % 2))]
    return _plan(evidence, chosen, _between(prompt, "request"))


def next_step(messages: list[Mapping[str, Any]], hermes: bool) -> tuple[str, dict[str, Any]]:
    """(tool, arguments) of an episode's next turn: search, inspect the first database found, hand it in."""
    seen = [m["content"] for m in messages if m["role"] in {"user", "tool"} and "<observation" in (m["content"] or "")]
    request = next(_between(m["content"], "request") for m in messages if m["role"] == "user")
    inspected = [text for text in seen if 'action="inspect_database"' in text]
    if inspected:
        found = re.search(r'"database": \{"database_id":"(db_\w+)".*?"evidence_id":"(ev_\w+)"', inspected[-1])
        assert found is not None, inspected[-1][:500]
        plan = _plan({found.group(1): [found.group(2)]}, [found.group(1)], request)
        if hermes:
            tables = re.findall(r'"table_id":"(tb_\w+)"', inspected[-1])[:1]
            plan["grounding"] = [{"database_id": found.group(1), "object_ids": tables}]
        return "submit_route", plan
    if seen:
        first = re.search(r"db_\w+", seen[0].split("\n", 1)[1])
        assert first is not None, seen[0][:500]
        return "inspect_database", {"database_id": first.group()}
    return ("route_search" if hermes else "search_catalog"), {"query": request[:4000], "top_k": 3}


@dataclass(frozen=True)
class Seen:
    """One request: its digest, the fault drawn for it, whether it was answered (200 with a whole body)."""

    digest: str
    fault: str
    answered: bool


@dataclass
class Misbehaving:
    """The behaviour, and its log. `percent` of the request digests draw one of `faults`; another `seed` draws others.

    `outage_over`: the outages hit no more. `calm`: no fault of the moment hits; the answers stay what they are.
    """

    faults: tuple[str, ...] = (*TRANSIENT, *OUTAGES, *LASTING)
    percent: int = 35
    seed: int = 0
    log: list[Seen] = field(default_factory=list)
    outage_over: bool = False
    calm: bool = False
    _times: Counter[str] = field(default_factory=Counter)
    _lock: threading.Condition = field(default_factory=threading.Condition)

    def forget(self) -> None:
        """Begin anew: an empty log, and every fault of the moment is still to come."""
        with self._lock:
            self.log.clear()
            self._times.clear()

    def wait_for(self, requests: int, seconds: float) -> bool:
        """Wait until so many requests have arrived in all; False when they did not in time."""
        with self._lock:
            return self._lock.wait_for(lambda: len(self.log) >= requests, seconds)

    def fault_of(self, name: str) -> str:
        """The fault that belongs to a request digest."""
        drawn = int(digest([self.seed, name])[:12], 16)
        if not self.faults or drawn % 100 >= self.percent:
            return NONE
        return self.faults[drawn // 100 % len(self.faults)]

    def __call__(self, stub: Stub, body: dict[str, Any]) -> None:
        name = body_digest(body)
        fault = self.fault_of(name)
        with self._lock:
            self._times[name] += 1
            times = self._times[name]
            brief = fault in TRANSIENT or (fault in OUTAGES and not self.outage_over)
            hit = brief and not self.calm and times <= LENGTH.get(fault, 1)
            self.log.append(Seen(name, fault, not hit and fault not in {"refused", "overflow", "rejected"}))
            self._lock.notify_all()
        if hit:
            self._fail(stub, fault)
        else:
            self._answer(stub, body, fault, int(name[:8], 16))

    def _fail(self, stub: Stub, fault: str) -> None:
        if fault == "rate_limited":
            stub.refuse(429, code="rate_limit_exceeded", Retry_After="0.2")
        elif fault == "cut":
            stub.cut()
        elif fault == "stuck":
            stub.server.release.wait(600)
            stub.cut()
        else:
            stub.refuse(503, code="overloaded")

    def _answer(self, stub: Stub, body: dict[str, Any], fault: str, number: int) -> None:
        usage = None if fault == "no_usage" else {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        if fault == "slow":
            stub.server.release.wait(0.3)
        if fault == "empty":
            return stub.answer("", usage=usage)
        if fault == "length":
            return stub.answer('{"selected_databases": ["db_', finish="length", usage=usage)
        if fault == "refused":
            return stub.answer(None, finish="content_filter", usage=usage)
        if fault == "overflow":
            return stub.refuse(400, code="context_length_exceeded", message="maximum context length is 10 tokens")
        if fault == "rejected":
            return stub.refuse(422, code="invalid_request", message="this text cannot be processed")
        messages, tools = body["messages"], [tool["function"]["name"] for tool in body.get("tools") or []]
        if messages[0]["role"] == "user":
            text = json.dumps(decision(messages[0]["content"], number))
            return stub.answer(_spoilt_text(text, fault), usage=usage)
        hermes = "route_search" in tools or "`route_search`" in messages[0]["content"]
        called, arguments = next_step(messages, hermes)
        if tools:
            return self._native(stub, fault, called, arguments, usage)
        if called == "submit_route":
            said = f"<FINAL>{json.dumps(arguments)}</FINAL>"
        else:
            said = f"<ACTION>{json.dumps({'name': called, 'arguments': arguments})}</ACTION>"
        if fault == "two_calls":
            said = f"{said}\n{said}"
        if fault == "markup":
            said = f"<tool_call>\n{json.dumps({'name': called, 'arguments': arguments})}\n</tool_call>"
        return stub.answer(said.replace("}</", "</") if fault == "bad_json" else said, usage=usage)

    def _native(
        self, stub: Stub, fault: str, called: str, arguments: dict[str, Any], usage: dict[str, Any] | None
    ) -> None:
        written = json.dumps(arguments)
        if fault == "markup":
            said = json.dumps({"name": called, "arguments": arguments})
            return stub.answer(f"<tool_call>\n{said}\n</tool_call>", usage=usage)
        if fault == "bad_json":
            written = written[:-1]
        calls = [
            {"id": f"c{i}", "type": "function", "function": {"name": called, "arguments": written}}
            for i in range(2 if fault == "two_calls" else 1)
        ]
        return stub.answer(None, finish="tool_calls", usage=usage, tool_calls=calls)


def _spoilt_text(text: str, fault: str) -> str:
    if fault == "bad_json":
        return text[:-1]
    if fault == "two_calls":
        return f"```json\n{text}\n```\nor\n```json\n{text}\n```"
    return f"<tool_call>\n{text}\n</tool_call>" if fault == "markup" else text


@contextmanager
def misbehaving_server(**settings: Any) -> Iterator[tuple[ModelServer, Misbehaving]]:
    """A running server and its behaviour."""
    behave = Misbehaving(**settings)
    with model_server(behave) as server:
        yield server, behave
