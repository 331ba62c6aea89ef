"""A disk that is full, or may not be written: one sentence, no torn file, and everything completed stays done."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer

from flows.cli_support import guarded
from tasks_lib.store.artifacts import ArtifactStore, StoreUnavailable
from tasks_lib.store.schemas import REAL, STR, Table

SCORES = Table("scores", 1, "Scores.", [("cell", STR, "cell"), ("score", REAL, "score")], ("cell",))


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes: the system refuses it as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def rows(n: int) -> list[dict[str, object]]:
    return [{"cell": f"{i:08}", "score": i / 7} for i in range(n)]


def test_a_full_disk_is_told_and_leaves_no_torn_artifact(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path))
    store.write(SCORES, "small", rows(3))
    with room_for(8192):
        with pytest.raises(StoreUnavailable, match=r"cannot be written .*, expected a disk with room"):
            store.write(SCORES, "large", rows(20_000))
        assert (store.ok(SCORES, "small"), store.ok(SCORES, "large")) == (True, False)
        assert {p.name for p in (tmp_path / "scores").iterdir()} == {"small.parquet", "small.json"}
    store.write(SCORES, "large", rows(20_000))
    assert store.committed(SCORES) == ["large", "small"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_any_other_file_is_named_in_one_sentence(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> dict[str, object]:
        raise OSError(number, "the reason", "/home/runs/run.json")

    with pytest.raises(typer.Exit) as ended:
        guarded(False, work)
    said = capsys.readouterr().err
    assert ended.value.exit_code == 1
    assert said.startswith("/home/runs/run.json cannot be used (the reason), expected a disk with room")
    assert said.count("\n") == 1
