"""RouteEnv over HTTP on loopback, for an agent in any language: public tasks, episodes, and a file of the routes handed in.

JSON in, JSON out; a request that cannot be answered gets a status and one sentence. Serves nothing but the public folder's content.
An episode has as many turns as ours: a call and a refused route consume one each, and when none is left no route is recorded as null.
Sessions live in memory; routes are written as they come, so a server started again on the same file goes on. What judges a plan is
given by the caller: routing lies above this floor.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from tasks_lib.protocol.records import PublicTask
from tasks_lib.routeenv.environment import ACTIONS, HERMES_TOOLS, RouteEnv
from tasks_lib.routeenv.search import Catalog

MAX_BODY = 1_000_000
MAX_SESSIONS = 10_000
TURNS = 30
FORMAT = "dsabench-routes@1"


class Judge(Protocol):
    """Says why a plan is not accepted, or "" when it is. `evidence`: ids observed in the episode, each with its database."""

    def __call__(self, plan: object, task: PublicTask, evidence: Mapping[str, str]) -> str: ...


class Refused(Exception):
    """A request that cannot be answered: HTTP status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass
class Session:
    """One episode. `refused`: routes handed in and not accepted; `closed`: a route, or none, was recorded."""

    env: RouteEnv
    branch_id: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    refused: int = 0
    closed: bool = False

    @property
    def turns_left(self) -> int:
        return 0 if self.closed else self.env.steps_left - self.refused


class Host:
    """The tasks, the one catalog, the sessions and the file of routes."""

    def __init__(
        self, catalog: Catalog, tasks: Mapping[str, PublicTask], judge: Judge, out: Path, submit: Mapping[str, Any]
    ) -> None:
        self._catalog, self._tasks, self._judge, self._out, self._submit = catalog, tasks, judge, out, submit
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self.recorded = _recorded(out)

    # ---- what is asked ----

    def answer(self, method: str, path: str, body: object) -> dict[str, Any]:
        """The answer to one request. Raises Refused."""
        match (method, path.strip("/").split("/")):
            case ("GET", ["v1", "tasks"]):
                return {"tasks": [self._task(t) for t in self._tasks.values()], "turns": TURNS}
            case ("GET", ["v1", "tools"]):
                return {"actions": list(ACTIONS), "hermes": list(HERMES_TOOLS), "submit": self._submit}
            case ("POST", ["v1", "sessions"]):
                return self._open(_object(body))
            case ("GET", ["v1", "sessions", name]):
                return self._transcript(self._session(name))
            case ("POST", ["v1", "sessions", name, "call"]):
                return self._call(self._session(name), _object(body))
            case ("POST", ["v1", "sessions", name, "route"]):
                return self._route(self._session(name), _object(body))
        raise Refused(
            404,
            "there is no such place; expected GET /v1/tasks, GET /v1/tools, POST /v1/sessions, GET /v1/sessions/ID, "
            "POST /v1/sessions/ID/call or POST /v1/sessions/ID/route.",
        )

    @staticmethod
    def _task(task: PublicTask) -> dict[str, Any]:
        return {
            "task_id": task.task_id,
            "corpus": str(task.corpus),
            "request": task.request,
            "allowlist": list(task.allowlist),
        }

    def _session(self, name: str) -> Session:
        session = self._sessions.get(name)
        if session is None:
            raise Refused(404, "there is no such session; open one with POST /v1/sessions.")
        return session

    def _open(self, body: Mapping[str, Any]) -> dict[str, Any]:
        _only(body, "task_id", "branch_id")
        task_id, branch_id = body.get("task_id"), body.get("branch_id", "")
        task = self._tasks.get(task_id) if isinstance(task_id, str) else None
        if task is None:
            raise Refused(404, "task_id names no task of this release; GET /v1/tasks lists them.")
        if not isinstance(branch_id, str) or len(branch_id) > 200:
            raise Refused(
                400, "branch_id is no short text; leave it out, or give the one that stands beside a released answer."
            )
        with self._lock:
            if (task.task_id, branch_id) in self.recorded:
                raise Refused(409, "the route of this task is recorded already; take the next task.")
            if sum(not s.closed for s in self._sessions.values()) >= MAX_SESSIONS:
                raise Refused(503, f"{MAX_SESSIONS} sessions are open, which is all; hand in their routes first.")
            name = secrets.token_hex(12)
            session = self._sessions[name] = Session(RouteEnv(self._catalog, task, TURNS), branch_id)
        return {"session": name, **self._task(task), "turns_left": session.turns_left}

    def _call(self, session: Session, body: Mapping[str, Any]) -> dict[str, Any]:
        _only(body, "action", "arguments")
        if "action" not in body or "arguments" not in body:
            raise Refused(400, "a call needs action and arguments; GET /v1/tools lists the actions.")
        with session.lock:
            self._still_open(session)
            seen = session.env.call(body["action"], body["arguments"])
            if session.turns_left <= 0:
                self._record(session, None)
            return {
                "observation": seen.data,
                "error": seen.error,
                "evidence_ids": list(seen.evidence_ids),
                "database_ids": list(seen.database_ids),
                "turns_left": session.turns_left,
            }

    def _route(self, session: Session, body: Mapping[str, Any]) -> dict[str, Any]:
        _only(body, "plan")
        if "plan" not in body:
            raise Refused(400, "a route needs plan, an object of the plan shape, or null to give none.")
        with session.lock:
            self._still_open(session)
            plan = body["plan"]
            reason = "" if plan is None else self._judge(plan, session.env.task, session.env.evidence)
            if reason:
                session.refused += 1
            if not reason or session.turns_left <= 0:
                self._record(session, None if reason else plan)
            accepted = plan is not None and not reason
            return {"accepted": accepted, "reason": reason, "turns_left": session.turns_left}

    @staticmethod
    def _still_open(session: Session) -> None:
        if session.closed:
            raise Refused(
                409, "this session is over: its route is recorded, or no turn was left; open one for the next task."
            )

    @staticmethod
    def _transcript(session: Session) -> dict[str, Any]:
        steps = [
            {
                "action": s.action,
                "arguments": s.arguments,
                "observation": s.observation.data,
                "error": s.observation.error,
            }
            for s in list(session.env.transcript)
        ]
        return {
            "task_id": session.env.task.task_id,
            "transcript": steps,
            "refused_routes": session.refused,
            "turns_left": session.turns_left,
            "closed": session.closed,
        }

    def _record(self, session: Session, plan: object) -> None:
        """Write the session's end once; a second session of the task that ends later is told so and changes nothing."""
        key = (session.env.task.task_id, session.branch_id)
        line = {
            "format": FORMAT,
            "task_id": key[0],
            "branch_id": key[1],
            "plan": plan,
            "observed": list(session.env.observed),
            "turns": len(session.env.transcript) + session.refused + (plan is not None),
        }
        with self._lock:
            if key in self.recorded:
                session.closed = True
                raise Refused(409, "another session has recorded the route of this task; take the next task.")
            with self._out.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
            self.recorded.add(key)
        session.closed = True


def _recorded(out: Path) -> set[tuple[str, str]]:
    """Keys that the file holds already. Raises ValueError for a file that is no file of routes."""
    if not out.exists():
        return set()
    found = set()
    for number, text in enumerate(out.read_text("utf-8").splitlines(), 1):
        try:
            line = json.loads(text)
            found.add((str(line["task_id"]), str(line["branch_id"])))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{out}, line {number} is no recorded route, expected {FORMAT}; name another file."
            ) from error
    return found


def _object(body: object) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise Refused(400, "the body is no JSON object, expected one.")
    return body


def _only(body: Mapping[str, Any], *names: str) -> None:
    if not set(body) <= set(names):
        raise Refused(400, f"the body has an unknown key, expected only {', '.join(names)}.")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 300
    server: RouteEnvServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def _answer(self, method: str) -> None:
        try:
            # A page in a browser may reach loopback, but under its own host name.
            if (self.headers.get("Host") or "").rsplit(":", 1)[0] not in {"127.0.0.1", "localhost"}:
                self.close_connection = True  # its body is not read
                raise Refused(403, "the Host is neither 127.0.0.1 nor localhost; call this server by its address.")
            body = self._body() if method == "POST" else None
            status, said = 200, self.server.host.answer(method, self.path, body)
        except Refused as error:
            status, said = error.status, {"error": str(error)}
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> object:
        length = self.headers.get("Content-Length") or ""
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            raise Refused(413, f"the body has no stated length or more than {MAX_BODY} bytes; send a shorter one.")
        raw = self.rfile.read(int(length))
        try:
            return json.loads(raw.decode("utf-8"))
        except (ValueError, RecursionError):
            raise Refused(400, "the body is no JSON text in UTF-8, expected one JSON object.") from None


class RouteEnvServer(ThreadingHTTPServer):
    """The server; `url` says where. Call `serve_forever` and `shutdown`."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, host: Host, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.host = host

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle of an answer is no fault of the server's."""
