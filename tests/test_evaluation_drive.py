"""Local work end to end on real SQLite files: order, placeholders, bindings, verdicts (PROTOCOL 10, known fault V10)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tasks_lib.evaluation.bindings import bound_values, placeholder_names
from tasks_lib.evaluation.diagnostics import GoldWriter
from tasks_lib.evaluation.drive import Attempt, Driver
from tasks_lib.evaluation.gold import Gold, GoldFault, GoldUnit
from tasks_lib.evaluation.oracle import oracle_plan
from tasks_lib.execution.drafts import SqlDraft
from tasks_lib.protocol.records import Binding, Contract, DatabaseHandle, LocalRequest
from tasks_lib.protocol.vocabulary import Behavior, Corpus, DataAgent, Difficulty, Engine, Planner
from tasks_lib.sql.canonical import CanonicalResult
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.sql.faults import DatabaseMissing
from tasks_lib.store.artifacts import read_file, write_file
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.schemas import CONTRIBUTIONS

UPSTREAM = "SELECT code FROM depots WHERE stock = (SELECT MAX(stock) FROM depots)"
DOWNSTREAM = "SELECT COUNT(*) FROM routes WHERE origin = '02134'"
QUESTION = "How many routes start at 02134?"


def database(path: Path, script: str) -> DatabaseHandle:
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    return DatabaseHandle(path.stem, Corpus.SPIDER, Engine.SQLITE, str(path), sha256_file(path), script)


class Bench:
    """Two databases, one sequential contract: the fullest depot's code starts the routes that are counted."""

    def __init__(self, folder: Path, runner: SqlRunner) -> None:
        self.handles = {
            "db_a": database(
                folder / "db_a.sqlite",
                "CREATE TABLE depots(code TEXT, stock INT); INSERT INTO depots VALUES ('02134', 9), ('00017', 3), ('00018', 3);",
            ),
            "db_b": database(
                folder / "db_b.sqlite",
                "CREATE TABLE routes(origin TEXT); INSERT INTO routes VALUES ('02134'), ('02134'), ('2134'), ('00017');",
            ),
        }
        self.runner = runner
        self.contract = Contract(
            "t",
            Corpus.SPIDER,
            Behavior.SEQUENTIAL,
            Difficulty.MEDIUM,
            ("u1", "u2"),
            ("db_a", "db_b"),
            (("db_a", "db_b"),),
            (
                Binding(
                    "u1",
                    "u2",
                    "depots.code",
                    0,
                    "02134",
                    "SELECT COUNT(*) FROM routes WHERE origin = :binding",
                    "How many routes start at {binding}?",
                ),
            ),
        )

    async def gold(self) -> Gold:
        units = []
        for unit_id, name, sql, question in (
            ("u1", "db_a", UPSTREAM, "Which depot holds the most stock?"),
            ("u2", "db_b", DOWNSTREAM, QUESTION),
        ):
            execution = await self.runner.run(self.handles[name], sql)
            units.append(GoldUnit(unit_id, Corpus.SPIDER, name, question, sql, "", False, execution.digest))
        return Gold(units, self.handles, self.runner)

    def attempt(
        self,
        selected: tuple[str, ...] = ("db_a", "db_b"),
        order: tuple[str, ...] | None = None,
        edges: tuple[tuple[str, str], ...] = (("db_a", "db_b"),),
    ) -> Attempt:
        route = {
            "trial": 0,
            "selected": list(selected),
            "nodes": [{"database_id": d, "information_request": f"ask {d}"} for d in selected],
        }
        oracle = oracle_plan(self.contract, selected)
        plan = {"order": list(order or selected), "edges": [{"source": a, "target": b} for a, b in edges], "ok": True}
        full = {"order": list(oracle.order), "edges": [{"source": a, "target": b} for a, b in oracle.edges], "ok": True}
        plans = {Planner.ORACLE: full, Planner.LLM: plan}
        return Attempt(
            self.contract,
            "Count the routes from the fullest depot.",
            "",
            ("u1", "u2"),
            "initial",
            route,
            plans if len(selected) > 1 else dict.fromkeys(Planner),
            None,
        )


def writer(texts: Mapping[str, str], seen: list[LocalRequest] | None = None) -> Callable[..., Any]:
    async def write(request: LocalRequest, handle: DatabaseHandle, unit: GoldUnit) -> SqlDraft:
        if seen is not None:
            seen.append(request)
        return SqlDraft(texts[unit.unit_id], None, "")

    return write


@pytest.fixture
async def bench(tmp_path: Path) -> Any:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", run="test")
    async with SqlRunner(ledger, workers=1) as runner:
        yield Bench(tmp_path, runner)
    ledger.close()


async def kinds(
    bench: Bench, attempt: Attempt, write: Any, planner: str = "llm", mode: str = "router"
) -> dict[str, str]:
    rows = await Driver(await bench.gold(), bench.runner, write).contributions(
        "x", "direct", DataAgent.TEXT_TO_SQL, [attempt]
    )
    return {r["unit_id"]: r["kind"] for r in rows if r["planner"] == planner and r["query_mode"] == mode}


async def test_a_verified_value_is_bound_with_its_type(bench: Bench) -> None:
    """'02134' stays text: bound as a number it would count the wrong rows."""
    seen: list[LocalRequest] = []
    texts = {"u1": UPSTREAM, "u2": "SELECT COUNT(*) FROM routes WHERE origin = :up1_code"}
    assert await kinds(bench, bench.attempt(), writer(texts, seen)) == {"u1": "correct", "u2": "correct"}
    downstream = [r for r in seen if r.database_id == "db_b"]
    assert {r.placeholders for r in downstream} == {("up1_code",)}
    privileged = [r.text for r in downstream if r.mode == "privileged"]
    assert set(privileged) == {"How many routes start at :up1_code?"}
    assert not any("02134" in r.text for r in seen)


async def test_a_missing_database_gives_no_verdicts(bench: Bench, tmp_path: Path) -> None:
    """Known fault E05: it is no wrong answer. Nothing is scored, and a run counts its layer as missing."""
    gold = await bench.gold()
    (tmp_path / "db_b.sqlite").unlink()
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", run="later")
    texts = {"u1": UPSTREAM, "u2": "SELECT COUNT(*) FROM routes WHERE origin = :up1_code"}
    async with SqlRunner(ledger, workers=1) as later:
        with pytest.raises(DatabaseMissing, match="db_b"):
            await Driver(gold, later, writer(texts)).contributions(
                "x", "direct", DataAgent.TEXT_TO_SQL, [bench.attempt()]
            )
    ledger.close()
    assert not (tmp_path / "db_b.sqlite").exists()
    from flows.factorial import FAULTS

    assert issubclass(DatabaseMissing, FAULTS)


async def test_a_value_that_is_not_utf8_is_written_and_read_back(bench: Bench, tmp_path: Path) -> None:
    """Known fault C06: SQLite cannot be given such a text, and the table of what was bound is written all the same."""
    stray = "CREATE TABLE depots(code TEXT, stock INT); INSERT INTO depots VALUES (CAST(x'4D75F16F7A' AS TEXT), 9);"
    bench.handles["db_a"] = database(tmp_path / "stray.sqlite", stray)
    texts = {"u1": UPSTREAM, "u2": "SELECT COUNT(*) FROM routes WHERE origin = :up1_code"}
    driver = Driver(await bench.gold(), bench.runner, writer(texts))
    rows = await driver.contributions("x", "direct", DataAgent.TEXT_TO_SQL, [bench.attempt()])
    write_file(CONTRIBUTIONS, tmp_path / "c.parquet", rows)
    found = read_file(CONTRIBUTIONS, tmp_path / "c.parquet").filter(unit_id="u2", planner="llm", query_mode="router")
    assert found["kind"].to_list() == ["execution_error"]
    assert json.loads(found["bindings_json"].item()) == {"up1_code": "Mu\udcf1oz"}


async def test_a_literal_is_no_placeholder(bench: Bench) -> None:
    """Downstream SQL without a placeholder is binding_invalid, even when its answer is right."""
    assert await kinds(bench, bench.attempt(), writer({"u1": UPSTREAM, "u2": DOWNSTREAM})) == {
        "u1": "correct",
        "u2": "binding_invalid",
    }


@pytest.mark.parametrize(
    "upstream",
    [
        "SELECT code FROM depots WHERE stock = 3",
        "SELECT code FROM depots WHERE stock = 99",
        "SELECT NULL FROM depots LIMIT 1",
        "SELECT code FROM depots WHERE code = '00017'",
        "SELECT nothing FROM depots",
        "DELETE FROM depots",
    ],
)
async def test_only_a_correct_single_value_is_bound(bench: Bench, upstream: str) -> None:
    """Several rows, no row, NULL, a wrong value, an error: the downstream unit is binding_invalid and no gold is substituted."""
    texts = {"u1": upstream, "u2": "SELECT COUNT(*) FROM routes WHERE origin = :up1_code"}
    got = await kinds(bench, bench.attempt(), writer(texts))
    assert got["u2"] == "binding_invalid"
    assert got["u1"] != "correct"


async def test_no_call_is_paid_for_a_decided_verdict(bench: Bench) -> None:
    seen: list[LocalRequest] = []
    texts = {"u1": "SELECT 'wrong'", "u2": "unused"}
    await kinds(bench, bench.attempt(), writer(texts, seen))
    assert {r.database_id for r in seen} == {"db_a"}
    await kinds(bench, bench.attempt(("db_b",)), writer(texts, seen))
    assert {r.database_id for r in seen} == {"db_a"}


async def test_a_plan_without_the_edge_cannot_bind(bench: Bench) -> None:
    texts = {"u1": UPSTREAM, "u2": "SELECT COUNT(*) FROM routes WHERE origin = :up1_code"}
    assert (await kinds(bench, bench.attempt(edges=()), writer(texts)))["u2"] == "binding_invalid"
    reverse = bench.attempt(order=("db_b", "db_a"))
    assert (await kinds(bench, reverse, writer(texts)))["u2"] == "binding_invalid"
    assert (await kinds(bench, reverse, writer(texts), planner="oracle"))["u2"] == "correct"


async def test_unselected_units_are_wrong(bench: Bench) -> None:
    got = await kinds(bench, bench.attempt(("db_a",)), writer({"u1": UPSTREAM}))
    assert got == {"u1": "correct", "u2": "not_selected"}


async def test_gold_binds_itself(bench: Bench) -> None:
    """The gold diagnostic runs its downstream query with the placeholder, in every mode."""
    for mode in ("privileged", "fused", "router"):
        assert await kinds(bench, bench.attempt(), GoldWriter([bench.contract]), mode=mode) == {
            "u1": "correct",
            "u2": "correct",
        }


async def test_changed_gold_stops_scoring(bench: Bench) -> None:
    gold = await bench.gold()
    unit = gold.units["u1"]
    spoiled = Gold(
        [
            GoldUnit(
                unit.unit_id,
                unit.corpus,
                unit.database_id,
                unit.question,
                "SELECT 'other'",
                "",
                False,
                unit.result_digest,
            )
        ],
        bench.handles,
        bench.runner,
    )
    with pytest.raises(GoldFault, match="gold of u1 gives digest"):
        await spoiled.check_all()
    broken = Gold(
        [GoldUnit("u9", unit.corpus, unit.database_id, "", "SELECT nope FROM depots", "", False, "")],
        bench.handles,
        bench.runner,
    )
    with pytest.raises(GoldFault, match="execution_error"):
        await broken.check_all()


def test_placeholder_names_are_public_words() -> None:
    assert placeholder_names(1, ["Title", "COUNT(*)", "title", ""]) == (
        "up1_title",
        "up1_count",
        "up1_title_3",
        "up1_column_4",
    )
    result = CanonicalResult(("a", "b"), (("x", 7),))
    assert bound_values(("up1_a", "up1_b"), result, True) == {"up1_a": "x", "up1_b": 7}
    assert bound_values(("up1_a", "up1_b"), result, False) is None


def test_the_oracle_keeps_gold_order_and_appends_extras() -> None:
    contract = Contract(
        "t", Corpus.SPIDER, Behavior.SEQUENTIAL, Difficulty.EASY, ("u1", "u2"), ("db_z", "db_a"), (("db_z", "db_a"),)
    )
    plan = oracle_plan(contract, ["db_c", "db_a", "db_b", "db_z"])
    assert (plan.order, plan.edges) == (("db_z", "db_a", "db_b", "db_c"), (("db_z", "db_a"),))
    assert oracle_plan(contract, ["db_a", "db_b"]).edges == ()


@pytest.mark.parametrize("upstream", [(), (("a",), ("b",)), ((None,),)])
def test_v10_even_a_correct_upstream_binds_one_value_only(upstream: tuple[tuple[Any, ...], ...]) -> None:
    assert bound_values(("up1_a",), CanonicalResult(("a",), upstream), True) is None
