"""What every command shares: the one app, `--json`, exit codes, and how errors become one sentence.

With `--json` the last line of stdout is one JSON object, logs go to stderr; exit 0 good, 1 run failed or incomplete, 2 bad
usage. Does not belong here: commands (`cli`, `cli_build`, `cli_review`).
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.stopping import SENTENCE, Stopped, deaf, stoppable

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="DSABench: source discovery, coordination and execution over a catalog of databases.",
)
Json = Annotated[bool, typer.Option("--json", help="One JSON object as the last line of stdout.")]
Spider = Annotated[Path | None, typer.Option(help="Spider, official layout.")]
Bird = Annotated[Path | None, typer.Option(help="BIRD, official layout.")]
LiveSQLBench = Annotated[Path | None, typer.Option(help="LiveSQLBench.")]
BackendOption = Annotated[
    list[str] | None,
    typer.Option("--backend", help='A backend as JSON, such as \'{"name": "x", "model": "openai/x"}\'; repeatable.'),
]
BackendsOption = Annotated[
    Path | None, typer.Option("--backends", help="YAML file with a list of backends, beside any --backend.")
]
MaxCalls = Annotated[int, typer.Option(min=0, help="Stop before more model calls than this are sent; 0 for no limit.")]
MaxCost = Annotated[float, typer.Option(min=0, help="Stop before more US dollars than this are spent; 0 for no limit.")]
CELL_ID = (
    "The cell as backend, router (direct, react, hermes), data agent (text_to_sql, adapter), planner (oracle, llm), interaction (never, "
    "once) and query mode (privileged, fused, router), joined by dots: offline-tfidf.react.adapter.llm.never.router"
)
RunnerOption = Annotated[
    str,
    typer.Option(
        "--runner",
        help="Where work of offline policies runs: processes, dask (a local cluster) or tcp://HOST:PORT of a Dask scheduler.",
    ),
]


DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG, errno.EISDIR, errno.ENOTDIR}
"""What is the matter with a disk, and not with us."""


class BadUsage(ValueError):
    """What the user typed cannot be used."""


def _usage_errors() -> tuple[type[BaseException], ...]:
    from flows.benchmark import NothingToBuild
    from flows.runs import BackendUnknown, RunUnknown
    from flows.serve import ServeError
    from tasks_lib.contracts.profiles import ProfileRefused
    from tasks_lib.contracts.release import ReleaseDamaged, ReleaseRefused
    from tasks_lib.corpora.files import CorpusError
    from tasks_lib.scoring.cells import UnknownCell

    return (
        BackendUnknown,
        NothingToBuild,
        RunUnknown,
        ServeError,
        ProfileRefused,
        ReleaseDamaged,
        ReleaseRefused,
        CorpusError,
        UnknownCell,
    )


def _run_errors() -> tuple[type[BaseException], ...]:
    from flows.publish import CheckFailed, PublishRefused
    from flows.rescore import RescoreRefused
    from flows.runs import RunBusy
    from tasks_lib.evaluation.gold import GoldFault
    from tasks_lib.evaluation.rejudging import VerdictsDiffer
    from tasks_lib.models.chat import BackendMisconfigured, ProviderUnavailable
    from tasks_lib.reporting.run_tables import ReportError
    from tasks_lib.scoring.episodes import JoinError
    from tasks_lib.scoring.metrics import DenominatorError
    from tasks_lib.scoring.publish import QualityError
    from tasks_lib.sql.faults import DatabaseFault
    from tasks_lib.store.artifacts import ArtifactRefused, StoreUnavailable
    from tasks_lib.store.keys import KeyUnavailable
    from tasks_lib.store.ledgers import LedgerUnusable
    from tasks_lib.store.quality import QualityFailed
    from tasks_lib.store.runners import RunnerUnusable, WorkerLost

    return (
        CheckFailed,
        PublishRefused,
        ReportError,
        RunBusy,
        WorkerLost,
        RescoreRefused,
        VerdictsDiffer,
        KeyUnavailable,
        LedgerUnusable,
        QualityFailed,
        RunnerUnusable,
        GoldFault,
        BackendMisconfigured,
        ProviderUnavailable,
        JoinError,
        DenominatorError,
        QualityError,
        DatabaseFault,
        ArtifactRefused,
        StoreUnavailable,
    )


def finish(as_json: bool, fields: dict[str, Any], text: str, good: bool) -> None:
    if text and not as_json:
        print(text)
    if as_json:
        print(json.dumps(fields, sort_keys=False))
    raise typer.Exit(0 if good else 1)


def guarded(as_json: bool, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run `work`; a known error becomes one sentence on stderr (and in the JSON) and the right exit code."""
    try:
        return work()
    except KeyboardInterrupt:
        _say(as_json, SENTENCE)
        raise typer.Exit(128 + signal.SIGINT) from None
    except Stopped as stopped:
        _say(as_json, str(stopped))
        raise typer.Exit(stopped.code) from None
    except BadUsage as error:  # before the others, whose types take seconds to import
        message, code = str(error), 2
    except _usage_errors() as error:
        message, code = str(error), 2
    except _run_errors() as error:
        message, code = f"{error} Nothing already computed is lost.", 1
    except Exception as error:
        # A fault of ours: the traceback is for the report of it; the last line of stdout stays one JSON object.
        message, code = _told_by_the_disk(error), 1
        if not message:
            traceback.print_exc()
            message = f"unexpected {type(error).__name__}: {error}. Nothing already computed is lost."
    _say(as_json, message)
    raise typer.Exit(code)


def _told_by_the_disk(error: Exception) -> str:
    """One sentence where the disk is full or may not be written, "" where something else is the matter."""
    if not isinstance(error, OSError) or error.errno not in DISK:
        return ""
    return (
        f"{error.filename or 'a file'} cannot be used ({error.strerror}), expected a disk with room and the right to write; mend that "
        "and run the same command again. Nothing already computed is lost."
    )


def _say(as_json: bool, message: str) -> None:
    print(message, file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps({"status": "failed", "error": message}), flush=True)


def run_flow(work: Callable[[], Coroutine[Any, Any, Any]], served: bool = False) -> dict[str, Any]:
    """Run a flow to its end, then stop the worker processes it started; a signal stops both (`stopping`).

    `served`: start the Prefect server here, unless PREFECT_API_URL names one; meanwhile `work` imports the flow.
    """
    from tasks_lib.store.tasks import close_pool

    with stoppable(_end) as watch:
        try:
            with _server() if served else nullcontext():
                flow = work()
            return dict(asyncio.run(flow))
        finally:
            close_pool(at_once=watch.heard() > 0)


def run_here(work: Callable[[], Any]) -> Any:
    """Run what starts neither flow nor worker; a signal stops it."""
    with stoppable(_end):
        return work()


@contextmanager
def _server() -> Iterator[None]:
    """The Prefect server comes up beside what is done inside, out of reach of Ctrl-C: a flow that is stopped must still be able to say so."""
    if url := os.environ.get("PREFECT_API_URL", ""):
        _answers(url)
        yield
        return
    import prefect.server.api.server  # noqa: F401  (all that the other thread needs, so that no two import at once)
    from prefect import get_client

    def start() -> None:
        with deaf():
            get_client(sync_client=True)

    with ThreadPoolExecutor(1) as beside:
        started = beside.submit(start)
        yield
        started.result()


def _answers(url: str) -> None:
    """Raises BadUsage where nobody answers at the URL of a Prefect server. Who refuses is there: Prefect says why."""
    import http.client
    import urllib.error
    import urllib.request

    try:
        urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=10).close()
    except urllib.error.HTTPError:
        return
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise BadUsage(
            f"no Prefect server answers at PREFECT_API_URL {url} ({getattr(error, 'reason', error)}), expected a running one; start it, or "
            "unset PREFECT_API_URL to have one with each run."
        ) from error


def _end() -> None:
    """Kill every process that this one started; the last resort of a command that was told to stop."""
    import psutil

    _say("--json" in sys.argv, SENTENCE)
    for process in psutil.Process().children(recursive=True):
        process.kill()


def backends_of(texts: list[str] | None, file: Path | None = None, option: str = "--backend") -> list[Any]:
    """Backend specs of JSON texts, then of a YAML file. Raises BadUsage naming the place, the field and what was expected."""
    found = [_spec(option, text, shown=True) for text in texts or []]
    if file is not None:
        for n, entry in enumerate(_entries(file), 1):
            place = f"--backends {file}, entry {n}"
            try:
                found.append(_spec(place, json.dumps(entry)))
            except TypeError as error:  # YAML has dates and sets
                raise BadUsage(
                    f"{place} holds what JSON does not ({error}), expected texts, numbers; quote it."
                ) from None
    names = [b.name for b in found]
    if len(set(names)) != len(names):
        raise BadUsage(f"{option} names {names} hold one twice, expected distinct names; rename one.")
    return found


def _spec(place: str, text: str, shown: bool = False) -> Any:
    """The spec of a JSON text. `shown`: an error quotes the text, unless it holds a key. Raises BadUsage."""
    from pydantic import ValidationError

    from tasks_lib.models.backends import KEY_IN_CLEAR, BackendSpec

    try:
        return BackendSpec.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == KEY_IN_CLEAR:
            raise BadUsage(f"{place}: {first['msg']}.") from None
        field = ".".join(map(str, first["loc"])) or "the text"
        where = f"{place} {text!r}" if shown else place
        raise BadUsage(
            f"{where}: {field}: {first['msg'][0].lower()}{first['msg'][1:]}, expected a JSON object with at least name and model; "
            "see deployments/backends.example.yaml."
        ) from error


def _entries(file: Path) -> list[Any]:
    import yaml

    expected = "expected a YAML list of backends as in deployments/backends.example.yaml"
    try:
        entries = yaml.safe_load(file.read_text("utf-8"))
    except OSError as error:
        raise BadUsage(f"--backends {file} cannot be read ({error.strerror}), {expected}.") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadUsage(f"--backends {file} is no YAML ({' '.join(str(error).split())}), {expected}.") from error
    if not isinstance(entries, list) or not entries:
        raise BadUsage(f"--backends {file} holds {type(entries).__name__ if entries else 'nothing'}, {expected}.")
    return entries


def use_runner(name: str) -> None:
    """Have this process's jobs run there; "" leaves what DSABENCH_RUNNER says. Raises BadUsage for no runner."""
    from tasks_lib.store.runners import RunnerUnusable, check_runner

    if not name:
        return
    try:
        os.environ["DSABENCH_RUNNER"] = check_runner(name)
    except RunnerUnusable as error:
        raise BadUsage(str(error)) from error


REMEDIES = {"--release": "make a release with `dsabench build`, or leave the option out for the embedded one"}


def folder_of(path: Path | None, option: str) -> str:
    if path is None:
        return ""
    if not path.is_dir():
        remedy = REMEDIES.get(option, "datasets/README.md says where the data comes from and how it lies")
        raise BadUsage(f"{option} {path} is not a folder, expected one; {remedy}.")
    return str(path)


def release_of(path: Path | None) -> str:
    """The folder of a release that is run, "" for the embedded one; told before a server is started for it. Raises BadUsage."""
    folder = folder_of(path, "--release")
    if folder and not (Path(folder) / "manifest.json").is_file():
        raise BadUsage(f"--release {path} holds no manifest.json, expected a release folder; {REMEDIES['--release']}.")
    return folder


def corpora_of(spider: Path | None, bird: Path | None, livesqlbench: Path | None) -> list[str]:
    """The folders of the corpora, "" for one that was not given. Raises BadUsage when none was, or one is no folder."""
    given = [folder_of(p, o) for p, o in ((spider, "--spider"), (bird, "--bird"), (livesqlbench, "--livesqlbench"))]
    if not any(given):
        raise BadUsage(
            "no corpus was given, expected at least one of --spider, --bird, --livesqlbench with its folder."
        )
    return given
