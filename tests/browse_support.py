"""One hand-made task for the pages of the browser: a sequential contract, a route with an extra database, a clarified interactive one.

Text that a model, a query or a database could plant stands in every place that a page shows. No expectations here.
"""

from __future__ import annotations

import json
from typing import Any

from tasks_lib.models.transcripts import KIND, Completion, completion_fields
from tasks_lib.protocol.records import Binding, Branch, Contract, PublicTask, SourceUnit
from tasks_lib.protocol.vocabulary import Behavior, CallOutcome, Corpus, Difficulty
from tasks_lib.reporting.browser_views import Gold, TaskRows
from tasks_lib.sql.canonical import CanonicalResult
from tasks_lib.sql.execute import LEDGER_KIND
from tasks_lib.store.ledgers import Lease, Ledger, Produced

EVIL = "<script>window.planted = 1</script><img src=x onerror='window.planted = 1'>"
NAMES = {"db_a": "harbour", "db_b": "fleet", "db_c": "museum"}
GOLD_RESULT = CanonicalResult(("ship",), ((f"Aurora {EVIL}",),))
WRONG_RESULT = CanonicalResult((f"n {EVIL}", "note"), tuple((i, EVIL) for i in range(20)))


def unit(number: int, database: str, result: CanonicalResult) -> SourceUnit:
    """A unit whose question and SQL name its number."""
    return SourceUnit(
        unit_id=f"spider:train_spider:{number}",
        corpus=Corpus.SPIDER,
        database=database,
        question=f"Question of unit {number}?",
        sql=f"SELECT gold_{number} FROM t",
        evidence="",
        split="train",
        tables=("t",),
        columns=(),
        literals=(),
        ordered=False,
        result_digest=result.digest,
        row_count=len(result.rows),
        column_count=len(result.columns),
        flags=(),
    )


def sequential() -> Gold:
    """harbour → fleet, among four candidates."""
    units = (unit(1, "harbour", GOLD_RESULT), unit(2, "fleet", WRONG_RESULT))
    binding = Binding(units[0].unit_id, units[1].unit_id, "ships.name", 0, "Aurora", "SELECT :binding", "Of {binding}?")
    contract = Contract(
        "task_seq",
        Corpus.SPIDER,
        Behavior.SEQUENTIAL,
        Difficulty.HARD,
        tuple(u.unit_id for u in units),
        ("db_a", "db_b"),
        (("db_a", "db_b"),),
        (binding,),
    )
    return Gold(
        contract,
        PublicTask("task_seq", Corpus.SPIDER, f"Which ship? {EVIL}", ("db_a", "db_b", "db_c", "db_d")),
        units,
        NAMES,
    )


def interactive() -> Gold:
    """harbour or museum, by branch."""
    units = (unit(3, "harbour", GOLD_RESULT), unit(4, "museum", WRONG_RESULT))
    branches = (
        Branch("a", units[0].unit_id, "The harbour.", "harbour"),
        Branch("b", units[1].unit_id, "The museum.", "museum"),
    )
    contract = Contract(
        "task_int",
        Corpus.SPIDER,
        Behavior.INTERACTIVE,
        Difficulty.EASY,
        tuple(u.unit_id for u in units),
        ("db_a", "db_c"),
        (),
        (),
        branches,
        "Which place?",
    )
    return Gold(contract, PublicTask("task_int", Corpus.SPIDER, "How many?", ("db_a", "db_b", "db_c")), units, NAMES)


def fill(ledger: Ledger) -> None:
    """Calls and executions that the rows name."""
    reply = Completion(CallOutcome.OK, f"I choose {EVIL}")
    payload = json.dumps({"completion": completion_fields(reply)}).encode()
    put(ledger, "call", KIND, Produced("ok", payload, {"attempts": 1, "latency": 0.5}))
    for key, result in (("right", GOLD_RESULT), ("wrong", WRONG_RESULT)):
        body = {"digest": result.digest, "rows": len(result.rows), "error": ""}
        put(
            ledger,
            key,
            LEDGER_KIND,
            Produced("ok", json.dumps(body).encode(), {"seconds": 0.1}, {result.digest: result.to_bytes()}),
        )
    body = {"digest": "", "rows": 0, "error": f"no such column {EVIL}"}
    put(ledger, "broken", LEDGER_KIND, Produced("execution_error", json.dumps(body).encode(), {"seconds": 0.1}))


def put(ledger: Ledger, key: str, kind: str, produced: Produced) -> None:
    lease = ledger.acquire(key, kind)
    assert isinstance(lease, Lease)
    ledger.complete(lease, produced)


def route(selected: list[str], topology: str, edges: list[tuple[str, str]], branch: str = "") -> dict[str, Any]:
    """A row of `routes`."""
    return {
        "branch_id": branch,
        "valid": True,
        "reason": "",
        "selected": selected,
        "topology": topology,
        "nodes": [{"database_id": d, "information_request": f"ask {d} {EVIL}"} for d in selected],
        "edges": [{"source": a, "target": b, "type": "", "reason": ""} for a, b in edges],
        "evidence_ids": ["ev_1"],
        "confidence": 0.5,
        "observed": selected,
        "turns": 1,
        "malformed_turns": 0,
        "failure": "",
    }


def turn(branch: str = "") -> dict[str, Any]:
    """A row of `route_turns`."""
    return {
        **{
            "branch_id": branch,
            "turn": 1,
            "call_key": "call",
            "outcome": "ok",
            "kind": "final",
            "action": "submit_route",
        },
        **{"arguments": f'{{"q": "{EVIL}"}}', "malformed_reason": "", "recovery": "", "observed": ["db_a"]},
        **{"selected": ["db_a"], "accepted": True},
    }


def contribution(unit_id: str, database: str, kind: str, execution: str, sql: str, **more: str) -> list[dict[str, Any]]:
    """Rows of `contributions` of one unit, equal under both planners, for every agent and mode."""
    return [
        {
            **{"data_agent": agent, "planner": planner, "query_mode": mode, "state": "initial", "branch_id": ""},
            **{"unit_id": unit_id, "database_id": database, "request_text": f"local {EVIL}", "sql": sql},
            **{"bindings_json": "", "execution": execution, "kind": kind, **more},
        }
        for agent in ("text_to_sql", "adapter")
        for planner in ("oracle", "llm")
        for mode in ("privileged", "fused", "router")
    ]


def episodes(stage: str, branch: str = "") -> list[dict[str, Any]]:
    """24 cells that ended alike."""
    solved = stage == "none"
    return [
        {
            **{
                "data_agent": agent,
                "planner": planner,
                "interaction": interaction,
                "query_mode": mode,
                "branch_id": branch,
            },
            **{"s": solved, "g": solved, "t": solved, "h": True, "failure_stage": stage, "failure_flag": ""},
        }
        for agent in ("text_to_sql", "adapter")
        for planner in ("oracle", "llm")
        for interaction in ("never", "once")
        for mode in ("privileged", "fused", "router")
    ]


def sequential_chains() -> list[TaskRows]:
    """A backend that is right with react and takes museum for fleet with direct."""
    one, two = sequential().units
    plan = {"planner": "llm", "branch_id": "", "order": ["db_a", "db_b"], "edges": [], "ok": True, "attempts": 1}
    good = [
        *contribution(one.unit_id, "db_a", "correct", "right", f"SELECT 1 -- {EVIL}"),
        *contribution(two.unit_id, "db_b", "correct", "wrong", "SELECT 2"),
    ]
    bad = [
        *contribution(one.unit_id, "db_a", "mismatch", "wrong", f"SELECT 3 -- {EVIL}"),
        *contribution(two.unit_id, "db_b", "not_selected", "", ""),
    ]
    right = route(["db_a", "db_b"], "sequential", [("db_a", "db_b")])
    wrong = route(["db_a", "db_c"], "parallel", [("db_c", "db_a")])
    return [
        TaskRows("mine", "direct", [wrong], {"": [turn()]}, [], [], [plan], bad, episodes("under_selection")),
        TaskRows("mine", "react", [right], {"": [turn()]}, [], [], [plan], good, episodes("none")),
    ]


def interactive_chains() -> list[TaskRows]:
    """A backend that asks, is answered on branch b and follows."""
    one, two = interactive().units
    ask = {"ask": True, "question": f"Which place? {EVIL}", "failure": ""}
    releases = [
        {"branch_id": b, "released": b == "b", "answer": "The museum." if b == "b" else "", "rule": "canonical"}
        for b in "ab"
    ]
    rows = [
        *contribution(one.unit_id, "db_a", "execution_error", "broken", "SELECT x", branch_id="a"),
        *contribution(two.unit_id, "db_c", "correct", "wrong", "SELECT y", branch_id="b", state="clarified"),
    ]
    routes = [route(["db_a"], "interactive", []), route(["db_c"], "interactive", [], "b")]
    ended = [*episodes("source_execution_error", "a"), *episodes("none", "b")]
    return [TaskRows("mine", "hermes", routes, {"": [turn()], "b": [turn("b")]}, [ask], releases, [], rows, ended)]
