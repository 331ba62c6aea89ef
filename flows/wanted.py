"""What a run wants, as keys: computed in plain code before anything runs, so that `done` is a look into the store.

A run is its release, backends and settings; its id is a digest of those, so that the same run resumes and a rerun finds
everything done. The keys of one (backend, router) chain are derived from each other, never from results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tasks_lib.evaluation.inputs import load
from tasks_lib.models.backends import BackendSpec
from tasks_lib.protocol.records import Cell
from tasks_lib.protocol.vocabulary import AskScope, DataAgent, PlannerLanguage, Router
from tasks_lib.sql.comparators import COMPARATOR_VERSION
from tasks_lib.store.keys import artifact_key, code_digest, digest

TRIAL = 0
LATER_SETTINGS = ("ask_scope", "planner_language")
"""Settings that came after runs had ids: left at their defaults they change no id."""
ROUTING_CODE = ("tasks_lib/routing", "tasks_lib/routeenv", "tasks_lib/models", "tasks_lib/protocol")
ASK_CODE = ROUTING_CODE
RELEASE_CODE = (
    "tasks_lib/evaluation/layer.py",
    "tasks_lib/evaluation/alignment.py",
    "tasks_lib/evaluation/prompts",
    "tasks_lib/models",
    "tasks_lib/protocol",
)
PLAN_CODE = (
    "tasks_lib/evaluation/layer.py",
    "tasks_lib/evaluation/oracle.py",
    "tasks_lib/evaluation/requests.py",
    "tasks_lib/execution",
    "tasks_lib/models",
    "tasks_lib/protocol",
)
LOCAL_CODE = ("tasks_lib/evaluation", "tasks_lib/execution", "tasks_lib/sql", "tasks_lib/models", "tasks_lib/protocol")
SCORE_CODE = (
    *(f"tasks_lib/scoring/{name}.py" for name in ("tables", "chains", "episodes", "stages", "metrics", "targets")),
    "tasks_lib/protocol",
)
"""What a cell's rows come from; the statistics over cells are no part of it."""


class RunSpec(BaseModel):
    """Everything that decides a run's numbers, strict and complete; echoed in the run's record.

    `release`: folder. `manifest`: sha256 of its manifest. `tasks`: how many tasks, 0 for all. `seed`: of the bootstrap.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    release: str
    manifest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    backends: tuple[BackendSpec, ...]
    judge: BackendSpec
    evidence: Literal["unit", "privileged_only"] = "unit"
    tasks: Annotated[int, Field(ge=0)] = 0
    draws: Annotated[int, Field(gt=0)] = 5000
    seed: Annotated[int, Field(ge=0)] = 20260
    ask_scope: AskScope = "interactive"
    planner_language: PlannerLanguage = "en"

    @cached_property
    def run_id(self) -> str:
        """Digest of what decides the numbers; the place of the release does not."""
        fields = self.model_dump(mode="json", exclude={"release"})
        for name in LATER_SETTINGS:
            if fields[name] == type(self).model_fields[name].default:
                del fields[name]
        return "run-" + digest(fields)[:12]

    def backend(self, name: str) -> BackendSpec:
        """The backend of a name. Raises KeyError naming those there are."""
        for spec in self.backends:
            if spec.name == name:
                return spec
        raise KeyError(f"backend {name!r} is not in this run, expected one of {[b.name for b in self.backends]}.")


@dataclass(frozen=True)
class ChainKeys:
    """Artifact keys of one (backend, router): its layers in order; `contributions` by data agent."""

    routes: str
    asks: str
    releases: str
    clarified: str
    plans: str
    contributions: dict[DataAgent, str]

    def inputs(self) -> dict[str, str]:
        """Keys by layer name, as contributions and cells need them."""
        return {
            "routes": self.routes,
            "asks": self.asks,
            "releases": self.releases,
            "clarified": self.clarified,
            "plans": self.plans,
        }


def recorded_chains(record: Mapping[str, Any]) -> dict[tuple[str, Router], ChainKeys]:
    """The chains a run's record says its cells rest on: what is verified and reported, whatever the code of today wants."""
    found = {}
    for name, keys in record.get("chains", {}).items():
        backend, router = name.split(" ")
        contributions = {DataAgent(a): k for a, k in keys["contributions"].items()}
        found[(backend, Router(router))] = ChainKeys(**{**keys, "contributions": contributions})
    return found


def wanted_tasks(run: RunSpec) -> list[str]:
    """Task ids of a run, in id order (ids are keyed digests, so the first N are a fixed arbitrary sample)."""
    ids = sorted(load(run.release).contracts)
    return ids[: run.tasks] if run.tasks else ids


def routes_key(run: RunSpec, backend: BackendSpec, router: Router, trial: int = TRIAL) -> str:
    """Key of the initial routes of (backend, router); Random asks no model, so only the name is the backend's."""
    return artifact_key(
        "routes@1",
        {"release": run.manifest},
        {
            "backend": backend.name,
            "model": backend.fingerprint() if router is not Router.RANDOM else "",
            "router": router,
            "tasks": run.tasks,
            "trial": trial,
            "code": code_digest(*ROUTING_CODE),
        },
    )


def turns_key(run: RunSpec, backend: BackendSpec, router: Router, trial: int = TRIAL) -> str:
    """Key of the transcripts of the initial routes of (backend, router)."""
    return artifact_key(
        "route_turns@1",
        {"routes": routes_key(run, backend, router, trial)},
        {"backend": backend.name, "router": router, "trial": trial, "code": code_digest(*ROUTING_CODE)},
    )


def clarified_turns_key(run: RunSpec, backend: BackendSpec, router: Router) -> str:
    """Key of the transcripts of the clarified routes of (backend, router)."""
    return artifact_key(
        "route_turns@1",
        {"clarified": chain_keys(run, backend, router).clarified},
        {"backend": backend.name, "router": router, "trial": TRIAL, "code": code_digest(*ROUTING_CODE)},
    )


def chain_keys(run: RunSpec, backend: BackendSpec, router: Router) -> ChainKeys:
    """All layer keys of one (backend, router)."""
    base: dict[str, Any] = {"backend": backend.name, "model": backend.fingerprint(), "router": router, "trial": TRIAL}
    routes = routes_key(run, backend, router)
    asks = artifact_key("asks@2", {"routes": routes}, {**base, "scope": run.ask_scope, "code": code_digest(*ASK_CODE)})
    releases = artifact_key(
        "releases@1",
        {"asks": asks, "release": run.manifest},
        {**base, "judge": run.judge.fingerprint(), "code": code_digest(*RELEASE_CODE)},
    )
    clarified = artifact_key(
        "clarified_routes@1", {"releases": releases, "asks": asks}, {**base, "code": code_digest(*ROUTING_CODE)}
    )
    plans = artifact_key(
        "plans@1",
        {"routes": routes, "clarified": clarified, "releases": releases, "release": run.manifest},
        {**base, "language": run.planner_language, "code": code_digest(*PLAN_CODE)},
    )
    contributions = {
        agent: artifact_key(
            "contributions@1",
            {"routes": routes, "clarified": clarified, "releases": releases, "plans": plans, "release": run.manifest},
            {
                **base,
                "agent": agent,
                "evidence": run.evidence,
                "comparators": {str(corpus): version for corpus, version in COMPARATOR_VERSION.items()},
                "code": code_digest(*LOCAL_CODE),
            },
        )
        for agent in DataAgent
    }
    return ChainKeys(routes, asks, releases, clarified, plans, contributions)


def cell_key(run: RunSpec, cell: Cell, chain: ChainKeys) -> str:
    """Key of a cell's episode partition and metrics."""
    inputs = {**chain.inputs(), "contributions": chain.contributions[cell.data_agent], "release": run.manifest}
    return artifact_key("cell@1", inputs, {"cell": cell.cell_id, "tasks": run.tasks, "code": code_digest(*SCORE_CODE)})
