"""Whatever is asked of RouteEnv: nothing outside the allowlist, nothing private, nothing too long, no exception; and many
episodes over one index get what one gets alone."""

from __future__ import annotations

import asyncio
import json
import re
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from catalog_support import ferries, publish
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks_lib.corpora.model import ColumnInfo, TableInfo
from tasks_lib.protocol.records import PublicTask
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.routeenv.environment import ACTIONS, HERMES_TOOLS, Observation, RouteEnv
from tasks_lib.routeenv.observations import MAX_CHARACTERS
from tasks_lib.routeenv.search import Catalog

ID = re.compile(r"(?:db|tb|col|cap|ent|rel|ev)_[0-9a-f]{12}")
PRIVATE = re.compile(r"ferry_lines|quay_logs|sqlite|catalog_support|Traceback|KeyError|/tmp|SELECT|gold", re.IGNORECASE)
MARK = "zzmarkzz"
TOOLS = {tool["function"]["name"]: tool["function"]["parameters"]["properties"] for tool in (*ACTIONS, *HERMES_TOOLS)}
QUERIES = (
    "Brindal coast harbour depth",
    "sailing region Oslam",
    "quay_logs_9.harbour ferry_lines_3",
    "' OR 1=1; DROP TABLE harbour --",
    "../../etc/passwd %s {} \\ \x00",
    "Oslam",
)


@dataclass(frozen=True)
class World:
    """A catalog of eight databases of which two are candidates; the ids a caller may meet, and those it may not."""

    catalog: Catalog
    folder: Path
    allowed: tuple[str, ...]
    inside: tuple[str, ...]
    hidden: frozenset[str]

    def env(self, budget: int = 30) -> RouteEnv:
        return RouteEnv(self.catalog, PublicTask("t", Corpus.SPIDER, "Where do ferries sail?", self.allowed), budget)


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("home")
        patch.setenv("DSABENCH_HOME", str(path))
        yield path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, home: Path) -> World:
    """Equal schemas, shared values, one very long meaning and one table without columns, inside and outside the allowlist."""
    path = tmp_path_factory.mktemp("public")
    made = []
    for i in range(8):
        database = ferries(path, f"ferry_lines_{i}", port="Oslam" if i % 3 else "Brindal")
        wide = tuple(ColumnInfo(f"gauge_{n}", "REAL", f"gauge {n} " + "of the quay " * 90) for n in range(30))
        extra = TableInfo("gauges", wide, 5), TableInfo("empty", (), 0)
        made.append(replace(database, tables=(*database.tables, *extra)) if i in (1, 4, 5) else database)
    folder = publish(made, path)
    catalog = Catalog.load(folder)
    wide_ones = [name for name in sorted(catalog.databases) if len(catalog.tables_of[name]) > 2]
    others = [name for name in sorted(catalog.databases) if name not in wide_ones]
    allowed = (wide_ones[0], others[0])
    inside, hidden = set(allowed), set(catalog.databases) - set(allowed)
    for rows in (catalog.databases, catalog.tables, catalog.columns, catalog.capabilities, catalog.entities):
        for name, row in rows.items():
            (inside if row["database_id"] in allowed else hidden).update((name, row["evidence_id"]))
    for name, row in catalog.relations.items():
        mine = {row["source_database_id"], row["target_database_id"]} <= set(allowed)
        (inside if mine else hidden).update((name, row["evidence_id"]))
    assert len(hidden) > 500
    return World(catalog, folder, allowed, tuple(sorted(inside)), frozenset(hidden))


def check(world: World, env: RouteEnv, action: Any, arguments: Any) -> Observation:
    """One call, and all that must hold of any answer."""
    before, left = len(env.transcript), env.steps_left
    seen = env.call(action, arguments)
    said = f"{seen.text}\n{seen.error}\n{json.dumps(seen.data)}"
    assert bool(seen.text) != bool(seen.error)
    assert len(seen.text) <= MAX_CHARACTERS
    assert len(seen.error) <= 400
    assert not set(ID.findall(said)) & world.hidden
    assert not PRIVATE.search(said)
    assert MARK not in said
    assert set(seen.database_ids) <= set(world.allowed)
    assert set(seen.evidence_ids) <= env.evidence.keys() & set(world.inside)
    assert set(env.evidence.values()) | set(env.observed) <= set(world.allowed)
    assert (json.loads(seen.text) if seen.text else {}) == seen.data
    assert (len(env.transcript) - before, left - env.steps_left) == ((1, 1) if left else (0, 0))
    return seen


def near_misses(name: str) -> list[str]:
    """Texts that are almost `name`."""
    return [name.upper(), f" {name}", f"{name}\n", name[:-1], f"{name}0", name.replace("_", "-"), f"{name}\u0000{MARK}"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(MARK),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)


def asked(world: World) -> st.SearchStrategy[tuple[Any, Any]]:
    """(action, arguments): well-formed calls about any id there is, and every way of getting them wrong."""
    ids = st.sampled_from(sorted(world.hidden) + list(world.inside) * 3)
    ids = ids | ids.flatmap(lambda name: st.sampled_from(near_misses(name))) | st.sampled_from(["", MARK, "\ud800"])
    queries = st.sampled_from(QUERIES) | st.sampled_from(["", " ", "\ud83d", MARK * 600]) | ids
    numbers = st.integers(1, 200) | st.sampled_from([0, -1, 10**30, True, 2.0, "3", None])

    def argument(rule: Any) -> st.SearchStrategy[Any]:
        if rule["type"] == "integer":
            return numbers
        if rule["type"] == "array":
            return st.lists(st.sampled_from([*rule["items"]["enum"], MARK]), max_size=3)
        if "enum" in rule:
            return st.sampled_from([*rule["enum"], MARK, "ferry_lines_3"])
        return queries if "maxLength" in rule else ids

    def call(name: str) -> st.SearchStrategy[tuple[Any, Any]]:
        shaped = st.fixed_dictionaries({}, optional={k: argument(rule) for k, rule in TOOLS[name].items()})
        loose = st.dictionaries(st.sampled_from([*TOOLS[name], MARK]), json_values, max_size=4)
        full = st.fixed_dictionaries({k: argument(rule) for k, rule in TOOLS[name].items()})
        return st.tuples(st.just(name), full | shaped | shaped | loose | json_values)

    return st.sampled_from(sorted(TOOLS)).flatmap(call) | st.tuples(json_values, json_values)


def fuzzed(examples: int) -> Any:
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.large_base_example]
    return settings(max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=checks)


@fuzzed(400)
@given(data=st.data())
def test_any_call_keeps_to_the_allowlist(world: World, data: st.DataObject) -> None:
    action, arguments = data.draw(asked(world))
    check(world, world.env(), action, arguments)


@fuzzed(60)
@given(data=st.data())
def test_any_episode_keeps_its_budget_and_its_evidence(world: World, data: st.DataObject) -> None:
    env = world.env(5)
    shown: dict[str, None] = {}
    for action, arguments in data.draw(st.lists(asked(world), max_size=9)):
        shown.update(dict.fromkeys(check(world, env, action, arguments).evidence_ids))
    assert len(env.transcript) <= 5
    assert list(env.evidence) == list(shown)


def walk(world: World, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Every action on every object of one database, asking for as much as it gives."""
    catalog, calls = world.catalog, []
    for action, rules in TOOLS.items():
        most = {k: r["maximum"] for k, r in rules.items() if r["type"] == "integer"}
        for other in catalog.databases:
            words = {"query": QUERIES[0], "database_id": name, "source_database_id": name, "target_database_id": other}
            given_ = {**most, **{k: v for k, v in words.items() if k in rules}}
            calls.append((action, given_))
        if action == "inspect_table":
            calls = calls[: -len(catalog.databases)]
            calls += [(action, {**most, "table_id": t["table_id"]}) for t in catalog.tables_of[name]]
        if action == "inspect_column":
            columns = [c for t in catalog.tables_of[name] for c in catalog.columns_of.get(t["table_id"], ())]
            calls += [(action, {"column_id": c["column_id"]}) for c in columns]
        if action == "expand_relations":
            objects = [("database", name), *(("table", t["table_id"]) for t in catalog.tables_of[name])]
            calls += [(action, {**most, "object_type": kind, "object_id": i}) for kind, i in objects]
    return calls


def test_every_action_on_every_object_of_every_database(world: World) -> None:
    """Without luck: hidden databases give errors only, candidates answer, and the longest answers keep the cap."""
    env = world.env(10_000)
    answered, cut = set(), 0
    for name in world.catalog.databases:
        for action, arguments in walk(world, name):
            seen = check(world, env, action, arguments)
            asks_ids = any(key.endswith("_id") for key in arguments)
            if name not in world.allowed and asks_ids:
                assert seen.error
            elif not seen.error:
                answered.add(action)
                cut += "omitted" in seen.data
    assert answered == set(TOOLS)
    assert cut > 5


EPISODE = [
    ("search_catalog", {"query": QUERIES[0], "top_k": 2}),
    ("route_search", {"query": QUERIES[1]}),
    ("search_entity", {"query": QUERIES[5]}),
    ("search_capability", {"query": "depth of harbours"}),
    ("inspect_database", {"database_id": 0}),
    ("expand_relations", {"object_type": "database", "object_id": 0, "depth": 2}),
    ("check_compatibility", {"source_database_id": 0, "target_database_id": 1}),
    ("check_coverage", {"database_id": 0}),
]


def played(catalog: Catalog, allowed: tuple[str, ...]) -> tuple[RouteEnv, list[str]]:
    env = RouteEnv(catalog, PublicTask("t", Corpus.SPIDER, "r", allowed))
    texts = []
    for action, arguments in EPISODE:
        real = {k: allowed[v] if k.endswith("_id") else v for k, v in arguments.items()}
        texts.append(env.call(action, real).text)
    return env, [*texts, *env.evidence, *env.observed]


async def test_three_hundred_episodes_share_one_index(world: World) -> None:
    """Threads and tasks over a catalog whose indexes are not built yet get what lone episodes get, and copy nothing."""
    names = tuple(sorted(world.catalog.databases))
    pairs = [(a, b) for a in names for b in names if a != b]
    alone = {pair: played(Catalog.load(world.folder), pair)[1] for pair in pairs[:7]}
    shared = Catalog.load(world.folder)
    wanted = [pairs[i % 7] for i in range(300)]
    with ThreadPoolExecutor(16) as pool:
        threads = list(pool.map(lambda pair: played(shared, pair), wanted[:150]))
    tasks = await asyncio.gather(*(asyncio.to_thread(played, shared, pair) for pair in wanted[150:]))
    assert [seen for _, seen in (*threads, *tasks)] == [alone[pair] for pair in wanted]
    assert all(env.catalog is shared for env, _ in (*threads, *tasks))


def test_episodes_leave_no_memory_behind(world: World) -> None:
    """A live episode holds its transcript (under 200 kB), a finished one nothing."""
    played(world.catalog, world.allowed)
    tracemalloc.start()
    try:
        live = [played(world.catalog, world.allowed)[0] for _ in range(100)]
        held, _ = tracemalloc.get_traced_memory()
        live.clear()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 100 * 200_000
    assert left < 500_000


def test_calls_on_one_episode_from_many_threads_keep_the_budget(world: World) -> None:
    env = world.env(40)
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda i: env.call("search_entity", {"query": QUERIES[i % 2]}), range(100)))
    assert len(env.transcript) == 40
    assert sum(bool(observation.text) for observation in seen) == 40


def test_a_caller_cannot_alter_the_transcript(world: World) -> None:
    env = world.env()
    arguments: dict[str, Any] = {"query": "Oslam"}
    env.call("search_entity", arguments)
    arguments["query"] = "another"
    assert env.transcript[0].arguments == {"query": "Oslam"}
