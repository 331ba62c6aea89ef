"""Folders that commands write whole or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def drafted(out: Path, mode: int = 0o777) -> Iterator[Path]:
    """An empty folder beside `out`, which takes its place when the block comes to its end, and goes when it does not.

    An older `out` stays until then; a kill between the two renames leaves it as `.<name>.<hex>.old` beside its place.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.parent / f".{out.name}.{uuid.uuid4().hex}"
    draft.mkdir(mode=mode)
    try:
        yield draft
        old = draft.with_name(f"{draft.name}.old")
        if out.exists():
            os.replace(out, old)
        os.replace(draft, out)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
