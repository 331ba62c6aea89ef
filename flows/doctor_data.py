"""Is a corpus there in its official layout? Looks at names and lists only: nothing is read from databases (`dsabench units` does that)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from flows.doctor import Finding, State
from tasks_lib.corpora.files import CorpusError, origins_of, read_lines, read_records
from tasks_lib.corpora.livesqlbench import TASKS, UNITS, match_dumps
from tasks_lib.corpora.spider import QUESTION_FILES
from tasks_lib.corpora.tables_json import read_tables
from tasks_lib.protocol.vocabulary import Corpus, Split


def dataset(corpus: Corpus, root: Path) -> Finding:
    """Databases and questions of a corpus below `root`, and the databases that are listed without a file."""
    if not root.is_dir():
        return Finding(str(corpus), State.MISSING, f"no folder {root}", f"datasets/{corpus}.md says where to get it")
    try:
        files, questions, without = {Corpus.SPIDER: _spider, Corpus.BIRD: _bird, Corpus.LIVESQLBENCH: _livesqlbench}[
            corpus
        ](root)
        marks = Counter(origins_of(corpus, root, files).values())
    except CorpusError as error:
        return Finding(str(corpus), State.WRONG, str(error), f"lay it out as datasets/{corpus}.md says")
    absent = sorted(name for name, path in files.items() if not path.is_file())
    said = f"{len(files)} databases, {questions} questions"
    said += "".join(f", {n} {mark}" for mark, n in sorted(marks.items()) if mark != "original")
    said += f", {without} without a dump" if without else ""
    if absent:
        found = f"{said}; {len(absent)} listed without their file, such as {files[absent[0]]}"
        return Finding(str(corpus), State.WRONG, found, f"lay it out as datasets/{corpus}.md says")
    return Finding(str(corpus), State.OK, said)


Layout = tuple[dict[str, Path], int, int]
"""Database -> its file, number of questions, databases that have only a description."""


def _spider(root: Path) -> Layout:
    names = read_tables(Corpus.SPIDER, root / "tables.json")
    files = {name: root / "database" / name / f"{name}.sqlite" for name in names}
    questions = (read_records(Corpus.SPIDER, root / file, f"the {split} questions") for file, split in QUESTION_FILES)
    return files, sum(map(len, questions)), 0


def _bird(root: Path) -> Layout:
    parts = [split for split in (Split.TRAIN, Split.DEV) if (root / split).is_dir()]
    if not parts:
        raise CorpusError(Corpus.BIRD, root, "a folder dev or train", "neither")
    files: dict[str, Path] = {}
    questions = 0
    for part in parts:
        for name in read_tables(Corpus.BIRD, root / part / f"{part}_tables.json"):
            files[name] = root / part / f"{part}_databases" / name / f"{name}.sqlite"
        questions += len(read_records(Corpus.BIRD, root / part / f"{part}.json", f"the {part} questions of BIRD"))
    return files, questions, 0


def _livesqlbench(root: Path) -> Layout:
    described = {
        path.parent.name: path
        for path in sorted(root.glob("*/*_schema.txt"))
        if path.name == f"{path.parent.name}_schema.txt"
    }
    if not described:
        raise CorpusError(Corpus.LIVESQLBENCH, root, "folders <db> with <db>_schema.txt", "none")
    dumps = match_dumps(list(described), sorted((root / "dumps").glob("*.sql")))
    listed = [root / name for name in (TASKS, UNITS) if (root / name).exists()]
    if not listed:
        raise CorpusError(Corpus.LIVESQLBENCH, root / TASKS, f"the tasks, or {UNITS} beside it", "neither file")
    questions = len(read_lines(Corpus.LIVESQLBENCH, listed[0], "one JSON object a line"))
    return {**described, **dumps}, questions, len(described) - len(dumps)
