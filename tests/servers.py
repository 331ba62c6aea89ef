"""A loopback OpenAI-compatible server that misbehaves on command. Real HTTP, no mocks; it counts and keeps every request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behave = Callable[["Stub", dict[str, Any]], None]


class Stub(BaseHTTPRequestHandler):
    """One HTTP exchange. Behaviours call `answer`, `refuse`, or `cut`."""

    server: ModelServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        self.server.headers_seen.append({name.lower(): value for name, value in self.headers.items()})
        self.server.arrived.set()
        with self.server.counting:
            self.server.open_now += 1
            self.server.most_open = max(self.server.most_open, self.server.open_now)
        try:
            self.server.behave(self, body)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with self.server.counting:
                self.server.open_now -= 1

    def send_json(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def answer(
        self,
        content: str | None = "fine",
        finish: str = "stop",
        usage: dict[str, Any] | None = None,
        tool_calls: list[dict[str, Any]] | None = None,
        **message: Any,
    ) -> None:
        said: dict[str, Any] = {"role": "assistant", "content": content, **message}
        if tool_calls is not None:
            said["tool_calls"] = tool_calls
        body: dict[str, Any] = {
            "id": "reply-1",
            "object": "chat.completion",
            "created": 1,
            "model": "stub",
            "choices": [{"index": 0, "message": said, "finish_reason": finish}],
        }
        if usage is not None:
            body["usage"] = usage
        self.send_json(200, body)

    def refuse(self, status: int, code: str = "stub", message: str = "stub says no", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        error = {"message": message, "type": "stub_error", "param": None, "code": code}
        self.send_json(status, {"error": error}, named)

    def cut(self) -> None:
        """Close the connection in the middle of a reply."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "5000")
        self.end_headers()
        self.wfile.write(b'{"id": "reply')
        self.wfile.flush()
        self.close_connection = True
        self.connection.close()


class ModelServer(ThreadingHTTPServer):
    """`requests`: bodies seen, in order. `behave` may be replaced between calls. `release` lets waiting replies go."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, behave: Behave) -> None:
        super().__init__(("127.0.0.1", 0), Stub)
        self.behave = behave
        self.requests: list[dict[str, Any]] = []
        self.headers_seen: list[dict[str, str]] = []
        self.arrived = threading.Event()
        self.release = threading.Event()
        self.counting = threading.Lock()
        self.open_now = 0
        self.most_open = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def says(content: str | None = "fine", **fields: Any) -> Behave:
    """Always the same reply, with usage 10/5 unless told."""
    fields.setdefault("usage", USAGE)
    return lambda stub, body: stub.answer(content, **fields)


def refuses(status: int, **fields: str) -> Behave:
    return lambda stub, body: stub.refuse(status, **fields)


def in_turn(*behaviours: Behave) -> Behave:
    """The first behaviour for the first request, and so on; the last one stays."""
    seen = iter(behaviours)
    last = [behaviours[-1]]

    def behave(stub: Stub, body: dict[str, Any]) -> None:
        last[0] = next(seen, last[0])
        last[0](stub, body)

    return behave


def waits(stub: Stub, body: dict[str, Any]) -> None:
    """Answers only when `server.release` is set (at most 60 s)."""
    stub.server.release.wait(60)
    stub.answer("late", usage=USAGE)


@contextmanager
def model_server(behave: Behave) -> Iterator[ModelServer]:
    """A running server on a free loopback port."""
    server = ModelServer(behave)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        server.server_close()
        thread.join()
