"""The limits under which one statement runs.

Belongs here: the numbers and their version. Does not belong here: enforcing them (workers and engines do).
"""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one statement; `version` is part of the execution key, so other limits mean other executions.

    wall_seconds: from handing the statement to the engine until the last row is fetched.
    cpu_seconds: processor time of the worker process for the statement.
    memory_bytes: what the statement may allocate in the worker, on top of the interpreter itself.
    max_rows: rows of a result. max_bytes: size of its canonical byte form.
    """

    version: str = "limits@1"
    wall_seconds: float = 30.0
    cpu_seconds: float = 30.0
    memory_bytes: int = 1024 * MEBIBYTE
    max_rows: int = 100_000
    max_bytes: int = 64 * MEBIBYTE

    def __post_init__(self) -> None:
        for name in ("wall_seconds", "cpu_seconds", "memory_bytes", "max_rows", "max_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"Limits: {name} is {getattr(self, name)}, expected a number above 0.")


DEFAULT_LIMITS = Limits()
