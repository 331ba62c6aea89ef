"""RouteEnv: every answer stays inside the allowlist, faulty calls are observations, evidence is stable, texts are capped."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from catalog_support import ferries, publish

from tasks_lib.corpora.model import ColumnInfo
from tasks_lib.protocol.records import PublicTask
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.routeenv.environment import ACTIONS, HERMES_TOOLS, RouteEnv
from tasks_lib.routeenv.observations import MAX_CHARACTERS, MAX_VALUE
from tasks_lib.routeenv.search import Catalog

ID = re.compile(r"\b(?:db|tb|col|cap|ent|rel|ev)_[0-9a-f]{12}\b")


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("home")
        patch.setenv("DSABENCH_HOME", str(path))
        yield path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Path:
    """Four databases with one schema; values of the first two are equal, so that they are compatible."""
    path = tmp_path_factory.mktemp("public")
    ports = ("Brindal", "Brindal", "Oslam", "Brindal")
    return publish([ferries(path, f"ferry_lines_{i}", port=port) for i, port in enumerate(ports)], path)


@pytest.fixture(scope="module")
def catalog(folder: Path) -> Catalog:
    return Catalog.load(folder)


@pytest.fixture
def allowed(catalog: Catalog) -> tuple[str, ...]:
    return tuple(catalog.databases)[1:3]


@pytest.fixture
def env(catalog: Catalog, allowed: tuple[str, ...]) -> RouteEnv:
    return RouteEnv(catalog, task(allowed), step_budget=200)


def task(allowlist: tuple[str, ...]) -> PublicTask:
    return PublicTask("task_1", Corpus.SPIDER, "Where do ferries sail?", allowlist)


def owned(catalog: Catalog, databases: set[str]) -> set[str]:
    """Every public id that belongs to the databases alone."""
    ids = set(databases)
    for rows in (catalog.databases, catalog.tables, catalog.columns, catalog.capabilities, catalog.entities):
        for name, row in rows.items():
            if row["database_id"] in databases:
                ids |= {name, row["evidence_id"]}
    for name, row in catalog.relations.items():
        if {row["source_database_id"], row["target_database_id"]} & databases:
            ids |= {name, row["evidence_id"]}
    return ids


def calls(catalog: Catalog, database: str, other: str) -> list[tuple[str, dict[str, Any]]]:
    """Every action and tool, asking for as much as it gives."""
    table = catalog.tables_of[database][0]["table_id"]
    column = catalog.columns_of[table][1]["column_id"]
    query = "Brindal coast harbour depth sailing region Oslam"
    return [
        ("search_catalog", {"query": query, "top_k": 50, "dataset": "spider"}),
        ("inspect_database", {"database_id": database, "table_limit": 50}),
        ("inspect_table", {"table_id": table, "column_limit": 200}),
        ("inspect_column", {"column_id": column}),
        ("search_capability", {"query": query, "top_k": 50}),
        ("search_entity", {"query": query, "top_k": 50}),
        ("check_coverage", {"database_id": database}),
        ("expand_relations", {"object_type": "database", "object_id": database, "depth": 3, "limit": 50}),
        ("expand_relations", {"object_type": "table", "object_id": table, "relation_types": ["compatible"]}),
        ("expand_relations", {"object_type": "column", "object_id": column, "depth": 2}),
        ("check_compatibility", {"source_database_id": database, "target_database_id": other, "limit": 50}),
        ("route_search", {"query": query, "top_k": 50}),
        ("load_database_skill", {"database_id": database}),
        ("inspect_relationships", {"database_id": database, "limit": 50}),
        ("inspect_relationships", {"database_id": database, "target_database_id": other}),
    ]


def test_the_nine_actions_have_the_published_signatures() -> None:
    found = {
        tool["function"]["name"]: (
            tuple(tool["function"]["parameters"]["required"]),
            tuple(
                n
                for n in tool["function"]["parameters"]["properties"]
                if n not in tool["function"]["parameters"]["required"]
            ),
        )
        for tool in ACTIONS
    }
    assert found == {
        "search_catalog": (("query",), ("dataset", "top_k")),
        "inspect_database": (("database_id",), ("table_limit",)),
        "inspect_table": (("table_id",), ("column_limit",)),
        "inspect_column": (("column_id",), ()),
        "search_capability": (("query",), ("dataset", "top_k")),
        "search_entity": (("query",), ("dataset", "top_k")),
        "check_coverage": (("database_id",), ()),
        "expand_relations": (("object_type", "object_id"), ("relation_types", "depth", "limit")),
        "check_compatibility": (("source_database_id", "target_database_id"), ("limit",)),
    }
    names = [tool["function"]["name"] for tool in HERMES_TOOLS]
    assert names == ["route_search", "load_database_skill", "inspect_database", "inspect_relationships"]
    assert all(tool["function"]["parameters"]["additionalProperties"] is False for tool in (*ACTIONS, *HERMES_TOOLS))


def test_every_answer_stays_inside_the_allowlist(catalog: Catalog, env: RouteEnv, allowed: tuple[str, ...]) -> None:
    hidden = owned(catalog, set(catalog.databases) - set(allowed))
    answered = set()
    for database, other in (allowed, allowed[::-1]):
        for action, arguments in calls(catalog, database, other):
            seen = env.call(action, arguments)
            assert seen.error == "", action
            assert not set(ID.findall(seen.text)) & hidden, action
            assert set(seen.database_ids) <= set(allowed)
            assert set(seen.evidence_ids) == set(ID.findall(" ".join(re.findall(r'"evidence_id":"(\w+)"', seen.text))))
            answered.add(action)
    assert answered == {tool["function"]["name"] for tool in (*ACTIONS, *HERMES_TOOLS)}
    assert set(env.evidence.values()) == set(allowed)


def test_the_same_calls_show_more_to_a_wider_allowlist(catalog: Catalog, allowed: tuple[str, ...]) -> None:
    """Guards the test above: what it looks for is really there to be hidden."""
    wide = RouteEnv(catalog, task(tuple(catalog.databases)), step_budget=200)
    hidden = owned(catalog, set(catalog.databases) - set(allowed))
    showing = {a for a, args in calls(catalog, *allowed) if set(ID.findall(wide.call(a, args).text)) & hidden}
    assert showing >= {"search_catalog", "search_capability", "search_entity", "expand_relations", "route_search"}
    assert "inspect_relationships" in showing


def test_objects_outside_the_allowlist_look_like_objects_that_do_not_exist(
    catalog: Catalog, env: RouteEnv, allowed: tuple[str, ...]
) -> None:
    hidden = next(name for name in catalog.databases if name not in allowed)
    for action, arguments in calls(catalog, hidden, allowed[0]):
        if "query" in arguments:
            continue
        seen = env.call(action, arguments)
        invented = {
            k: re.sub(r"_[0-9a-f]{12}", "_" + "0" * 12, v) if isinstance(v, str) else v for k, v in arguments.items()
        }
        unknown = env.call(action, invented)
        assert (seen.text, seen.database_ids, seen.evidence_ids) == ("", (), ())
        assert ID.sub("ID", seen.error) == ID.sub("ID", unknown.error)
        assert "is no " in seen.error
    assert env.observed == ()


@pytest.mark.parametrize(
    ("action", "arguments", "message"),
    [
        ("drop_table", {}, "no such action"),
        (["search_catalog"], {"query": "x"}, "no such action"),
        (None, {}, "no such action"),
        ("submit_route", {}, "no such action"),
        ("_database", {"name": "x"}, "no such action"),
        ("search_catalog", {"query": "harbour \ud83d"}, "half a character"),
        ("inspect_database", {"database_id": "\udfff"}, "half a character"),
        ("search_catalog", {}, "needs the argument query"),
        ("search_catalog", {"query": 7}, "query of search_catalog is of another type, expected text"),
        ("search_catalog", {"query": " "}, "blank or too long"),
        ("search_catalog", {"query": "x" * 4001}, "blank or too long"),
        ("search_catalog", {"query": "x", "top_k": "5"}, "expected an integer"),
        ("search_catalog", {"query": "x", "top_k": True}, "expected an integer"),
        ("search_catalog", {"query": "x", "top_k": 5.0}, "expected an integer"),
        ("search_catalog", {"query": "x", "top_k": None}, "expected an integer"),
        ("search_catalog", {"query": "x", "top_k": 0}, "out of range, expected 1 to 50"),
        ("search_catalog", {"query": "x", "top_k": 51}, "out of range"),
        ("search_catalog", {"query": "x", "dataset": "ferry_lines_1"}, "none of spider, bird, livesqlbench"),
        ("search_catalog", {"query": "x", "ferry_lines_1": 1}, "unknown argument"),
        ("search_catalog", ["x"], "no JSON object"),
        ("inspect_database", {"database_id": "ferry_lines_1"}, "that id is no database"),
        ("inspect_table", {"table_id": "harbour"}, "that id is no table"),
        ("expand_relations", {"object_type": "view", "object_id": "x"}, "none of database, table, column"),
        (
            "expand_relations",
            {"object_type": "table", "object_id": "x", "relation_types": "compatible"},
            "expected a list",
        ),
        ("expand_relations", {"object_type": "table", "object_id": "x", "relation_types": ["join"]}, "no list of"),
        ("expand_relations", {"object_type": "table", "object_id": "x", "depth": 4}, "expected 1 to 3"),
    ],
)
def test_faulty_calls_are_observations_that_echo_nothing(
    env: RouteEnv, action: Any, arguments: Any, message: str
) -> None:
    seen = env.call(action, arguments)
    assert message in seen.error
    assert (seen.text, seen.data, seen.evidence_ids, seen.database_ids) == ("", {}, (), ())
    assert "ferry_lines_1" not in seen.error
    assert "harbour" not in seen.error
    assert len(env.transcript) == 1


def test_one_database_is_not_compared_with_itself(env: RouteEnv, allowed: tuple[str, ...]) -> None:
    seen = env.call("check_compatibility", {"source_database_id": allowed[0], "target_database_id": allowed[0]})
    assert "compares two databases" in seen.error


PROGRAM = """
import json, sys
from pathlib import Path
from tasks_lib.protocol.records import PublicTask
from tasks_lib.routeenv.environment import RouteEnv
from tasks_lib.routeenv.search import Catalog
catalog = Catalog.load(Path(sys.argv[1]))
allowed, asked = json.loads(sys.argv[2])
env = RouteEnv(catalog, PublicTask("t", "spider", "r", tuple(allowed)), 200)
print(json.dumps([[env.call(a, g).text for a, g in asked], list(env.evidence.items()), env.observed]))
"""


def test_texts_and_evidence_are_the_same_in_two_processes(
    folder: Path, catalog: Catalog, allowed: tuple[str, ...], home: Path
) -> None:
    asked = json.dumps([allowed, calls(catalog, *allowed)])
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(folder), asked],
            env={**os.environ, "PYTHONHASHSEED": seed, "DSABENCH_HOME": str(home)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    ]
    assert outputs[0] == outputs[1]
    assert len(json.loads(outputs[0])[1]) > 20


def test_text_is_the_data_and_keeps_the_cap(tmp_path: Path) -> None:
    wide = ferries(tmp_path, "f_1")
    columns = tuple(
        ColumnInfo(f"reading_{i}", "REAL", f"reading number {i} of the gauge at the quay") for i in range(300)
    )
    table = replace(wide.tables[1], columns=(*wide.tables[1].columns, *columns))
    catalog = Catalog.load(publish([replace(wide, tables=(wide.tables[0], table))], tmp_path))
    (database,) = catalog.databases
    env = RouteEnv(catalog, task((database,)), 200)
    gauge = catalog.tables_of[database][1]["table_id"]
    for action, arguments in [
        *calls(catalog, database, database),
        ("inspect_table", {"table_id": gauge, "column_limit": 200}),
    ]:
        seen = env.call(action, arguments)
        if not seen.error:
            assert len(seen.text) <= MAX_CHARACTERS
            assert json.loads(seen.text) == seen.data
    assert 20 < len(seen.data["columns"]) < 200
    assert len(seen.data["columns"]) + seen.data["omitted"]["columns"] == 304
    shown = {c["evidence_id"] for c in seen.data["columns"]}
    assert shown < set(env.evidence)
    assert len(set(seen.evidence_ids)) == len(shown) + 1


def test_a_spent_budget_answers_nothing_more(catalog: Catalog, allowed: tuple[str, ...]) -> None:
    env = RouteEnv(catalog, task(allowed), step_budget=2)
    env.call("search_catalog", {"query": "ferries", "top_k": 1})
    env.call("search_catalog", {})
    assert env.steps_left == 0
    seen = env.call("inspect_database", {"database_id": allowed[0]})
    assert "budget of 2 is spent" in seen.error
    assert [step.action for step in env.transcript] == ["search_catalog", "search_catalog"]


def test_observed_and_coverage_count_what_was_seen(catalog: Catalog, env: RouteEnv, allowed: tuple[str, ...]) -> None:
    second, first = allowed
    env.call("inspect_database", {"database_id": first})
    table = catalog.tables_of[first][0]["table_id"]
    env.call("inspect_table", {"table_id": table})
    assert env.observed == (first,)
    coverage = env.call("check_coverage", {"database_id": first}).data["coverage"]
    assert coverage["tables"] == {"observed": 2, "in_all": 2}
    assert coverage["columns"] == {"observed": 4, "in_all": 8}
    assert coverage["capabilities"] == {"observed": 8, "in_all": 8}
    assert env.call("check_coverage", {"database_id": second}).data["coverage"]["tables"]["observed"] == 0
    assert env.observed == (first, second)


def test_relations_are_followed_step_by_step(catalog: Catalog) -> None:
    env = RouteEnv(catalog, task(tuple(catalog.databases)), 200)
    relation = next(r for r in catalog.relations.values() if r["kind"] == "foreign_key")
    start = {"object_type": "column", "object_id": relation["source_column_id"]}
    near = env.call("expand_relations", {**start, "relation_types": ["foreign_key"]})
    assert [r["relation_id"] for r in near.data["relations"]] == [relation["relation_id"]]
    kinds = [
        {r["kind"] for r in env.call("expand_relations", {**start, "depth": d, "limit": 50}).data["relations"]}
        for d in (1, 2)
    ]
    assert "compatible" in kinds[1]
    far = env.call("expand_relations", {**start, "depth": 2, "limit": 50})
    assert len(far.database_ids) > 1


def test_compatibility_is_seen_from_both_sides(catalog: Catalog) -> None:
    env = RouteEnv(catalog, task(tuple(catalog.databases)), 200)
    relation = next(r for r in catalog.relations.values() if r["kind"] == "compatible" and "40 values" in r["text"])
    a, b = relation["source_database_id"], relation["target_database_id"]
    one = env.call("check_compatibility", {"source_database_id": a, "target_database_id": b})
    two = env.call("check_compatibility", {"source_database_id": b, "target_database_id": a})
    assert relation["relation_id"] in {r["relation_id"] for r in one.data["relations"]}
    assert one.data["relations"] == two.data["relations"]


def test_search_entity_names_the_value_and_where_it_stands(
    env: RouteEnv, catalog: Catalog, allowed: tuple[str, ...]
) -> None:
    seen = env.call("search_entity", {"query": "Oslam coast", "top_k": 1})
    (value,) = seen.data["values"]
    assert (value["value"], value["found_in"], value["count"]) == ("Oslam coast", "region of harbour", 40)


def test_route_search_brings_evidence_of_every_level(env: RouteEnv, catalog: Catalog, allowed: tuple[str, ...]) -> None:
    """Databases, columns with their tables, capabilities and values (the levels of Hermes' search tool, paper Table 21)."""
    seen = env.call("route_search", {"query": "depth at low tide near the Oslam coast"})
    for kind, most in (("databases", 1), ("columns", 1), ("capabilities", 2), ("values", 2)):
        owners = [row["database_id"] for row in seen.data[kind]]
        assert owners
        assert all(owners.count(name) <= most for name in owners)
        assert all(row["evidence_id"] in env.evidence for row in seen.data[kind])
    assert {(row["name"], row["table"]) for row in seen.data["columns"]} == {("depth", "harbour")}
    assert {row["table_id"] for row in seen.data["columns"]} <= catalog.tables.keys()


def test_a_value_named_whole_comes_before_one_that_only_shares_words(env: RouteEnv, allowed: tuple[str, ...]) -> None:
    values = [
        row["value"] for row in env.call("search_entity", {"query": "from Oslam north 7 to the coast"}).data["values"]
    ]
    assert values[0] == "Oslam north 7"
    assert len(values) > 5


def test_long_texts_are_cut_and_every_list_keeps_a_place(tmp_path: Path) -> None:
    """Many wide tables must not push the capabilities out of a skill."""
    base = ferries(tmp_path, "f_2")
    names = tuple(
        ColumnInfo(f"reading_of_the_gauge_at_the_quay_number_{i}", "REAL", "metres " * 200) for i in range(40)
    )
    tables = (*base.tables, *(replace(base.tables[0], name=f"quay_{i}", columns=names) for i in range(12)))
    catalog = Catalog.load(publish([replace(base, tables=tables)], tmp_path))
    (database,) = catalog.databases
    env = RouteEnv(catalog, task((database,)), 200)
    skill = env.call("load_database_skill", {"database_id": database})
    assert len(skill.text) <= MAX_CHARACTERS
    assert skill.data["omitted"]["tables"] > 0
    assert len(skill.data["capabilities"]) >= 5
    assert skill.data["joins"]
    column = catalog.columns_of[catalog.tables_of[database][5]["table_id"]][0]
    meaning = env.call("inspect_column", {"column_id": column["column_id"]}).data["column"]["meaning"]
    assert len(meaning) <= MAX_VALUE
    assert len(column["meaning"]) <= MAX_VALUE or meaning.endswith("…")


def test_a_task_of_another_release_is_refused(catalog: Catalog) -> None:
    with pytest.raises(ValueError, match="ids of the catalog"):
        RouteEnv(catalog, task(("db_000000000000",)))
