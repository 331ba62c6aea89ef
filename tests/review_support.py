"""Reviews of the embedded release through the command line: exported, answered by script, imported."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import Said

Command = Callable[..., Said]


def export(dsabench: Command, release: Path, out: Path, *more: str) -> dict[str, Any]:
    said = dsabench("review", "export", "--release", str(release), "--out", str(out), "--json", *more)
    assert said.code == 0, said
    return said.json


def script(dsabench: Command, packet: Path, seed: int = 1) -> Path:
    """The scripted answers to a packet, beside the review folder."""
    out = packet.parents[2] / f"{packet.parent.name}-{packet.stem}-{seed}.csv"
    said = dsabench("review", "script", "--packet", str(packet), "--out", str(out), "--seed", str(seed), "--json")
    assert said.code == 0, said
    assert said.json["by"] == "scripted"
    return out


def take(dsabench: Command, release: Path, review: Path, *answers: Path, close: bool = False) -> Said:
    given = [part for path in answers for part in ("--answers", str(path))]
    more = ["--close"] if close else []
    return dsabench("review", "import", "--release", str(release), "--review", str(review), *given, *more, "--json")


def whole_review(dsabench: Command, release: Path, review: Path) -> dict[str, Any]:
    """A whole scripted review of two passes; the JSON of the last import."""
    names = list(export(dsabench, release, review, "--seed", "3")["assignments"])
    said = None
    for number in (1, 2):
        files = [script(dsabench, review / name / f"pass{number}.csv", at) for at, name in enumerate(names)]
        said = take(dsabench, release, review, *files)
        assert said.code == 0, said
    assert said is not None
    return said.json


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def write_csv(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
