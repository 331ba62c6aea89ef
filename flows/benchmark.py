"""Benchmark construction: corpora → audited source units → contracts, gates, wording → a release folder."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal

from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import Field

from flows.runtime import say, write_json
from flows.units import AUDIT_CODE, audited
from tasks_lib.contracts import profiles
from tasks_lib.contracts.building import build, locations
from tasks_lib.contracts.release import Release, ReleaseDamaged, check_out, copy
from tasks_lib.corpora.embedded import materialise, source_digest
from tasks_lib.evaluation.reranker_training import weights
from tasks_lib.models.backends import BackendSpec
from tasks_lib.models.client import open_model
from tasks_lib.protocol.vocabulary import Corpus
from tasks_lib.sql.execute import SqlRunner
from tasks_lib.store.keys import artifact_key, code_digest, sha256_bytes
from tasks_lib.store.ledgers import Ledger
from tasks_lib.store.settings import settings

BUILD_CODE = (
    "tasks_lib/contracts",
    "tasks_lib/catalog",
    "tasks_lib/routeenv",
    "tasks_lib/evaluation/reranker_training.py",
    "tasks_lib/models/embeddings.py",
    *AUDIT_CODE,
)
EMBEDDED_SEED = 1


class NothingToBuild(ValueError):
    """No corpus was given."""


async def build_release(
    roots: dict[Corpus, Path],
    profile: str,
    seed: int,
    out: Path,
    salt: bytes | None = None,
    renderer: BackendSpec | None = None,
    enrich: BackendSpec | None = None,
) -> dict[str, Any]:
    """Audit the corpora and put their release at `out`; the fields of `dsabench build --json`.

    What is built is kept in the home folder by everything that decides it, and only copied when it is wanted again.
    `profile`: the name of a shipped one, or a YAML file. `renderer`: the backend that words the contracts, or None for templates.
    `enrich`: the backend that adds a paragraph to each database's card, or None for none.
    """
    plan = profiles.load(profile)
    if not roots:
        raise NothingToBuild(
            "no corpus was given, expected at least one of --spider, --bird, --livesqlbench with its folder."
        )
    check_out(out)
    invocation = f"build:{uuid.uuid4().hex[:8]}"
    started = time.monotonic()
    say(f"reading and auditing {', '.join(corpus.value for corpus in roots)}")
    found = await audited(roots, invocation)
    sources = [source for source, _ in found]
    key = artifact_key(
        "release@1",
        {source.corpus.value: source.digest for source in sources},
        {
            "profile": plan.model_dump(mode="json"),
            "seed": seed,
            "salt": sha256_bytes(salt) if salt else "",
            "renderer": [renderer.name, renderer.fingerprint()] if renderer else [],
            **({"enrich": [enrich.name, enrich.fingerprint()]} if enrich else {}),
            "code": code_digest(*BUILD_CODE),
        },
    )
    made = settings().home.resolve() / "releases" / f"built-{key[:16]}"
    docs = settings().home.resolve() / "data_docs" / key[:16]
    kept = made.with_suffix(".json")
    try:
        Release.load(made)
        report = json.loads(kept.read_text("utf-8"))
    except (FileNotFoundError, ValueError):  # ReleaseDamaged is a ValueError
        units = {source.corpus: rows for source, rows in found}
        ledger = Ledger(settings().resolved_ledger_url, run=invocation)
        try:
            async with SqlRunner(ledger) as runner:
                model = open_model(renderer, ledger) if renderer else None
                enricher = open_model(enrich, ledger) if enrich else None
                fresh = await build(
                    sources, units, plan, seed, made, runner, salt, model, docs, say, fit=weights, enricher=enricher
                )
        finally:
            ledger.close()
        report = fresh.as_json()
        write_json(kept, report)
    copy(made, out, locations(sources))
    seconds = round(time.monotonic() - started, 3)
    return {**report, "release": str(out), "seconds": seconds, "data_docs": str(docs / "index.html")}


def embedded_folder() -> Path:
    """Where the embedded release of this code and these embedded corpora stands (built or not)."""
    key = artifact_key(
        "embedded_release@1",
        {"corpora": source_digest()},
        {"seed": EMBEDDED_SEED, "code": code_digest(*BUILD_CODE)},
    )
    return settings().home.resolve() / "releases" / f"embedded-{key[:12]}"


async def embedded_release() -> Path:
    """The embedded release, built on first use; a damaged one is built again."""
    folder = embedded_folder()
    roots = materialise(settings().home / "corpora")
    try:
        Release.load(folder)
    except ReleaseDamaged:
        say("building the embedded release: some minutes, once")
        await build_release(roots, "embedded", EMBEDDED_SEED, folder)
    return folder


@flow(name="benchmark", flow_run_name="benchmark {profile}")
async def benchmark(
    spider: Annotated[str, Field(strict=True)] = "",
    bird: Annotated[str, Field(strict=True)] = "",
    livesqlbench: Annotated[str, Field(strict=True)] = "",
    profile: Literal["small", "paper", "extended"] = "small",
    seed: Annotated[int, Field(strict=True, ge=0)] = 1,
    out: Annotated[str, Field(strict=True)] = "",
    salt_file: Annotated[str, Field(strict=True)] = "",
    profile_file: Annotated[str, Field(strict=True)] = "",
    renderer: BackendSpec | None = None,
    enrich: BackendSpec | None = None,
) -> dict[str, Any]:
    """Build a release from real corpora; without any folder, the embedded one.

    Args:
        spider: Folder of Spider in its official layout.
        bird: Folder of BIRD in its official layout.
        livesqlbench: Folder of LiveSQLBench.
        profile: How many tasks of which kind.
        seed: Seed of the synthesis.
        out: Folder of the release to write.
        salt_file: File whose bytes key the public ids; without it they are opaque but derivable.
        profile_file: YAML file of a profile of your own, instead of a named one.
        renderer: Backend that puts the contracts into words; without it, templates do.
        enrich: Backend that adds a paragraph to the catalog's card of each database; without it, none is added.
    """
    given = {Corpus.SPIDER: spider, Corpus.BIRD: bird, Corpus.LIVESQLBENCH: livesqlbench}
    roots = {corpus: Path(folder) for corpus, folder in given.items() if folder}
    if not roots:
        folder = await embedded_release()
        release = Release.load(folder)
        report: dict[str, Any] = {
            "release": str(folder),
            **{k: release.manifest[k] for k in ("tasks", "by_corpus", "by_behavior", "by_difficulty")},
        }
    else:
        if not out:
            raise NothingToBuild("no output folder was given, expected --out DIR for the release.")
        salt = Path(salt_file).read_bytes() if salt_file else None
        report = await build_release(roots, profile_file or profile, seed, Path(out), salt, renderer, enrich)
    rows = [{"behavior": b, "tasks": n} for b, n in report["by_behavior"].items()]
    await create_table_artifact(rows, key="benchmark-tasks", description=f"Tasks of {report['release']}")  # type: ignore[misc]
    return report
