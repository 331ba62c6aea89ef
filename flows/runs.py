"""Run records: `<home>/runs/<run id>/run.json`, which run was the last, and who is at work on one. A record echoes the effective
parameters."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from flows.runtime import write_json
from flows.wanted import ChainKeys, RunSpec
from tasks_lib.models.backends import OFFLINE_POLICIES, RANDOM, BackendSpec, offline_backends
from tasks_lib.protocol.vocabulary import Router
from tasks_lib.store.keys import sha256_file
from tasks_lib.store.settings import settings

_CHAIN = rf"^\S+ ({'|'.join(Router)})$"


class _Record(BaseModel):
    """What of a record must have its form before anything is made of it; the rest is only told."""

    spec: RunSpec
    status: str = ""
    cell_keys: dict[str, str] = {}
    chains: dict[Annotated[str, Field(pattern=_CHAIN)], ChainKeys] = {}
    turns: dict[str, dict[str, str]] = {}
    routing_routes: dict[str, str] = {}
    routing_turns: dict[str, str] = {}
    usage: dict[str, dict[str, Any]] = {}
    cost: dict[str, float] = {}


class RunUnknown(ValueError):
    """No such run, or its record cannot be read."""


class BackendUnknown(ValueError):
    """A backend names an offline policy that there is not."""


class RunBusy(RuntimeError):
    """Another process is at work on the run."""


def runs_folder() -> Path:
    return settings().home.resolve() / "runs"


def run_folder(run_id: str) -> Path:
    return runs_folder() / run_id


def spec_of(
    release: Path,
    backends: Sequence[BackendSpec] = (),
    judge: BackendSpec | None = None,
    evidence: str = "unit",
    tasks: int = 0,
    ask_scope: str = "interactive",
    planner_language: str = "en",
) -> RunSpec:
    """The run of a release with these backends (default: the four offline policies; judge: offline/hybrid)."""
    manifest = release / "manifest.json"
    if not manifest.is_file():
        raise RunUnknown(
            f"{release} holds no manifest.json, expected a release folder; make one with `dsabench build --out DIR`."
        )
    offline = offline_backends()
    for spec in (*backends, *([judge] if judge else [])):
        if spec.model.startswith("offline/") and not spec.offline:
            known = ", ".join((*OFFLINE_POLICIES, RANDOM))
            raise BackendUnknown(
                f"backend {spec.name}: {spec.model!r} is no offline policy, expected one of {known}; mend its model."
            )
    return RunSpec.model_validate(
        {
            "release": str(release.resolve()),
            "manifest": sha256_file(manifest),
            "backends": tuple(backends) or offline,
            "judge": judge or offline[-1],
            "evidence": evidence,
            "tasks": tasks,
            "ask_scope": ask_scope,
            "planner_language": planner_language,
        }
    )


def save(run_id: str, record: dict[str, Any]) -> None:
    """Write the run's record and note it as the last run."""
    write_json(run_folder(run_id) / "run.json", record)
    write_json(runs_folder() / "last.json", {"run": run_id})


@contextmanager
def marked(record: dict[str, Any]) -> Iterator[None]:
    """A run that fails or is stopped inside is recorded as incomplete with the reason; the failure itself goes on to the caller."""
    try:
        yield
    except BaseException as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else "stopped; resume the run."
        record |= {"status": "incomplete", "reason": " ".join(x for x in (record.get("reason"), reason) if x)}
        save(str(record["run"]), record)
        raise


_held: set[str] = set()  # runs that this process is at work on


@contextmanager
def alone(run_id: str) -> Iterator[None]:
    """Be the only process of this home at work on a run; subflows of the flow that holds it come in too. Raises RunBusy.

    The hold ends with the process, whatever ends it.
    """
    if run_id in _held:
        yield
        return
    path = runs_folder() / f".{run_id}.at-work"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            raise RunBusy(
                f"{run_id} is at work in process {stream.read().strip() or '(just started)'} already, expected nobody at it; wait for its "
                "end, or stop it and run the same command again."
            ) from None
        stream.truncate(0)
        stream.write(f"{os.getpid()}\n")
        stream.flush()
        _held.add(run_id)
        try:
            yield
        finally:
            _held.discard(run_id)


def load(run_id: str = "") -> tuple[RunSpec, dict[str, Any]]:
    """(spec, record) of a run; the last one when no id is given. Raises RunUnknown."""
    if not run_id:
        last = runs_folder() / "last.json"
        if not last.is_file():
            raise RunUnknown(
                f"no run is recorded in {runs_folder()}, expected at least one; start one with `dsabench run`."
            )
        try:
            run_id = str(json.loads(last.read_text("utf-8"))["run"])
        except (ValueError, KeyError, TypeError) as error:
            raise RunUnknown(
                f"{last} cannot be read ({error}), expected the last run's id; name the run with --run."
            ) from error
    path = run_folder(run_id) / "run.json"
    try:
        text = path.read_bytes()
        return _Record.model_validate_json(text).spec, json.loads(text)
    except FileNotFoundError:
        known = sorted(p.name for p in runs_folder().glob("run-*"))
        raise RunUnknown(f"run {run_id!r} has no record, expected {path}; known runs: {known or 'none'}.") from None
    except ValidationError as error:
        raise RunUnknown(
            f"the record {path} cannot be read ({first_of(error)}); delete it and run again, results are kept."
        ) from error


def first_of(error: ValidationError) -> str:
    """The first thing that is wrong with a file, and where, in one line."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"])) or "the file"
    return f"{where}: {' '.join(first['msg'].split())}"
