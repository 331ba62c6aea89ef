"""Digests and keys: canonical JSON, sha256, keys of artifacts, digests of code and prompt files.

A key that cannot be built is an error (`KeyUnavailable`), never a silent miss (known fault P01).
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import hmac
import json
import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from tasks_lib.store.settings import PROJECT_ROOT


class KeyUnavailable(TypeError):
    """cache_key_unavailable: a value has no canonical form, so no key exists and nothing may run under it."""


def _plain(value: Any, where: str) -> Any:
    """JSON-ready form that keeps types apart: tuples differ from lists, bytes from text, 1 from 1.0 and True."""
    if isinstance(value, Enum):
        return _plain(value.value, where)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return {"__float__": repr(value)}
        return value
    if isinstance(value, bytes):
        return {"__bytes__": value.hex()}
    if isinstance(value, Path):
        return {"__path__": str(value)}
    if isinstance(value, tuple):
        return {"__tuple__": [_plain(v, f"{where}[{i}]") for i, v in enumerate(value)]}
    if isinstance(value, list):
        return [_plain(v, f"{where}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, Mapping):
        for k in value:
            if not isinstance(k, str):
                raise KeyUnavailable(
                    f"cache_key_unavailable: {where} has a key of type {type(k).__name__}, expected text; use text keys."
                )
        return {str(k): _plain(v, f"{where}.{k}") for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"__record__": type(value).__name__, **{k: _plain(v, f"{where}.{k}") for k, v in fields.items()}}
    raise KeyUnavailable(
        f"cache_key_unavailable: {where} is a {type(value).__name__}, expected plain data (text, numbers, lists, "
        "mappings, records); pass a digest or a path instead."
    )


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, types kept apart. Raises KeyUnavailable naming the place."""
    return json.dumps(
        _plain(value, "value"), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def sha256_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_text(text: str) -> str:
    """sha256 hex of text; unpaired surrogates (undecodable database text) keep their bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def digest(value: Any) -> str:
    """sha256 hex of the canonical JSON of plain data."""
    return sha256_text(canonical_json(value))


def keyed_digest(key: bytes, text: str) -> str:
    """HMAC-sha256 hex: public ids, allowlist order, seeds (PROTOCOL 1, known fault K02)."""
    return hmac.new(key, text.encode("utf-8"), hashlib.sha256).hexdigest()


def sha256_file(path: Path | str) -> str:
    """sha256 hex of a file's bytes."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_PARSING = threading.Lock()


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields of a statement that hold statements: nowhere else can a docstring stand."""


def _code_of(path: Path) -> str:
    """Meaning of a source file: for Python its tree without docstrings, for anything else its bytes. Raises KeyUnavailable."""
    if path.suffix != ".py":
        return sha256_file(path)
    try:
        return _meaning(path.read_text("utf-8"))
    except (SyntaxError, ValueError) as error:
        raise KeyUnavailable(
            f"cache_key_unavailable: {path} cannot be read as Python ({error}), expected the project's code; mend or remove it."
        ) from error


@cache
def _meaning(source: str) -> str:
    # CPython up to 3.11.7 counts the depth of a tree for all threads together: two at once can raise SystemError (gh-106905).
    with _PARSING:
        tree = ast.parse(source)
    _drop_docstrings(tree)
    return sha256_text(ast.dump(tree))


def _drop_docstrings(node: ast.AST) -> None:
    body = getattr(node, "body", None)
    if (
        isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and body
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    ):
        node.body = body[1:]
    for name in _BLOCKS:
        for child in getattr(node, name, ()):
            _drop_docstrings(child)


@cache
def code_digest(*parts: str) -> str:
    """sha256 hex over the code and prompt files of `parts` (paths below the project root, such as `tasks_lib/routing`).

    Comments and docstrings do not count; helpers, prompts and SQL files do (known fault P01).
    """
    found = _code_files(parts)
    value = digest([list(item) for item in found])
    _FILES[value] = dict(found)
    return value


_FILES: dict[str, dict[str, str]] = {}


def code_files(value: str) -> dict[str, str]:
    """Digest by file of a code digest that this process computed. Raises KeyError for any other."""
    return dict(_FILES[value])


def code_changed(since: int, *parts: str) -> bool:
    """Whether a code or prompt file of `parts` was written after `since` (nanoseconds since the epoch), whatever it says now."""
    return any(path.stat().st_ctime_ns > since for path in _code_paths(parts))


def _code_paths(parts: tuple[str, ...]) -> Iterator[Path]:
    for part in parts:
        base = PROJECT_ROOT / part
        files: Iterable[Path] = [base] if base.is_file() else base.rglob("*")
        for path in sorted(files):
            if (
                path.is_file()
                and "__pycache__" not in path.parts
                and path.suffix in {".py", ".j2", ".sql", ".md", ".yaml", ".txt"}
                and path.name != "README.md"
            ):
                yield path


def _code_files(parts: tuple[str, ...]) -> list[tuple[str, str]]:
    found = [(path.relative_to(PROJECT_ROOT).as_posix(), _code_of(path)) for path in _code_paths(parts)]
    if not found:
        raise KeyUnavailable(
            f"cache_key_unavailable: no code found under {parts}; name existing folders of the project."
        )
    return found


@dataclass(frozen=True)
class KeyFields:
    """What an artifact key is the digest of. `inputs`: keys or digests by name. `params`: plain JSON."""

    stage: str
    inputs: dict[str, str]
    params: dict[str, Any]


_NOTED: ContextVar[dict[str, KeyFields] | None] = ContextVar("noted_keys", default=None)


@contextmanager
def noted_keys() -> Iterator[dict[str, KeyFields]]:
    """Collects the fields of every artifact key built inside, by key: a digest alone cannot say what changed it.

    Whoever collects around it gets them too.
    """
    noted: dict[str, KeyFields] = {}
    outer = _NOTED.get()
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)
        if outer is not None:
            outer.update(noted)


def artifact_key(stage: str, inputs: Mapping[str, str], params: Mapping[str, Any]) -> str:
    """Key of an artifact: stage `name@version`, digests of its inputs, its parameters (DESIGN, Prefect caching).

    Callers put the code digest of their floor into `params["code"]`.
    """
    if "@" not in stage:
        raise KeyUnavailable(f"cache_key_unavailable: stage {stage!r} has no version, expected name@version.")
    key = digest({"stage": stage, "inputs": dict(inputs), "params": dict(params)})
    noted = _NOTED.get()
    if noted is not None:
        noted[key] = KeyFields(stage, dict(inputs), _plain(dict(params), "params"))
    return key
