"""PRIVATE. Reading the files of a corpus, and the one error that says what is wrong with them.

Belongs here: JSON and JSON-lines files, the optional files every corpus root may hold (`titles.json`, `ORIGIN.json`,
`EMBEDDED`), building questions with their checks, the digest over everything read. Does not belong here: the layout of
any one corpus (its reader knows it), or what stands inside a database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tasks_lib.corpora.model import Question
from tasks_lib.protocol.vocabulary import Corpus, Split
from tasks_lib.store.keys import digest, sha256_file

EMBEDDED_MARKER = "EMBEDDED"
"""A file of this name in a corpus root says that its databases are the project's own, not the published ones."""
ORIGINS = ("original", "surrogate", "replica")

Record = dict[str, Any]


class CorpusError(ValueError):
    """A file of a corpus is missing or is not what its place in the layout calls for."""

    def __init__(self, corpus: Corpus, path: Path, expected: str, found: str) -> None:
        self.corpus, self.path, self.expected, self.found = corpus, path, expected, found
        super().__init__(
            f"{corpus}: {path}: expected {expected}, found {found}; datasets/{corpus}.md says where to get the data and "
            "where each file belongs."
        )


def read_text(corpus: Corpus, path: Path, expected: str) -> str:
    """Return a UTF-8 file as text (a leading byte order mark is dropped). Raises CorpusError when missing or not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise CorpusError(corpus, path, expected, "no such file") from None
    except IsADirectoryError:
        raise CorpusError(corpus, path, expected, "a folder") from None
    except UnicodeDecodeError as error:
        raise CorpusError(corpus, path, expected, f"bytes that are not UTF-8 at offset {error.start}") from None


def _parsed(corpus: Corpus, path: Path, expected: str, text: str, first_line: int = 1) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno + first_line - 1} column {error.colno}"
        raise CorpusError(corpus, path, expected, f"broken JSON at {place} ({error.msg})") from None
    except RecursionError:
        raise CorpusError(corpus, path, expected, "JSON that nests too deep to be read") from None


def read_json(corpus: Corpus, path: Path, expected: str) -> Any:
    """Return the JSON value of a file. Raises CorpusError, for broken JSON with its line and column."""
    return _parsed(corpus, path, expected, read_text(corpus, path, expected))


def read_records(corpus: Corpus, path: Path, expected: str) -> list[Record]:
    """Return a JSON file that holds a list of objects. Raises CorpusError."""
    return _records(corpus, path, expected, read_json(corpus, path, expected))


def read_lines(corpus: Corpus, path: Path, expected: str) -> list[Record]:
    """Return a JSON-lines file of objects; blank lines do not count. Raises CorpusError naming the line."""
    # Only \n ends a line: splitlines() would also cut at U+2028, which JSON texts may hold.
    lines = enumerate(read_text(corpus, path, expected).split("\n"), start=1)
    return _records(
        corpus, path, expected, [_parsed(corpus, path, expected, line, at) for at, line in lines if line.strip()]
    )


def read_mapping(corpus: Corpus, path: Path, expected: str) -> Record:
    """Return a JSON file that holds one object. Raises CorpusError."""
    value = read_json(corpus, path, expected)
    if not isinstance(value, dict):
        raise CorpusError(corpus, path, expected, f"a JSON {_kind(value)} instead of an object")
    return value


def _records(corpus: Corpus, path: Path, expected: str, value: Any) -> list[Record]:
    if not isinstance(value, list):
        raise CorpusError(corpus, path, expected, f"a JSON {_kind(value)} instead of a list")
    for index, record in enumerate(value):
        if not isinstance(record, dict):
            raise CorpusError(corpus, path, expected, f"at index {index} a JSON {_kind(record)} instead of an object")
    return value


def _kind(value: Any) -> str:
    names: dict[type, str] = {dict: "object", list: "list", str: "text", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def text_of(corpus: Corpus, path: Path, index: int, record: Record, name: str) -> str:
    """Return the non-blank text field `name` of record `index` of a file. Raises CorpusError."""
    value = record.get(name)
    if isinstance(value, str) and value.strip():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise CorpusError(
                corpus, path, f"text in field {name} of record {index}", f"half a character at offset {error.start}"
            ) from None
        return value
    found = f"{'no such field' if name not in record else 'an empty text' if isinstance(value, str) else _kind(value)}"
    raise CorpusError(corpus, path, f"text in field {name} of record {index}", found)


def build_question(
    corpus: Corpus,
    path: Path,
    index: int,
    record: Record,
    fields: Mapping[str, str],
    split: str,
    databases: Mapping[str, object],
) -> Question:
    """Make record `index` of the question file `path` a Question.

    Args:
        fields: which record field holds `database`, `question` and `sql`. `evidence` and `difficulty` are optional texts.
        databases: known names; another one is an error.

    The id is the record's own `unit_id`, else `<file stem>:<index>`, after `<corpus>:`.

    Raises:
        CorpusError: a field is missing or empty, the database is unknown, or `split` is neither train nor dev.
    """
    database = text_of(corpus, path, index, record, fields["database"])
    if database not in databases:
        raise CorpusError(corpus, path, f"at index {index} the name of a database of the corpus", repr(database))
    split = record.get("split", split)
    if split not in tuple(Split):
        raise CorpusError(corpus, path, f"split train or dev at index {index}", repr(split))
    own = record.get("unit_id")
    return Question(
        unit_id=f"{corpus}:{own}" if own else f"{corpus}:{path.stem}:{index}",
        corpus=corpus,
        database=database,
        question=text_of(corpus, path, index, record, fields["question"]),
        sql=text_of(corpus, path, index, record, fields["sql"]),
        evidence=str(record.get("evidence") or ""),
        split=str(split),
        difficulty=str(record.get("difficulty") or ""),
    )


def check_unique(corpus: Corpus, root: Path, questions: Iterable[Question]) -> None:
    """Raise CorpusError when two questions have one unit id."""
    seen: set[str] = set()
    for question in questions:
        if question.unit_id in seen:
            raise CorpusError(corpus, root, "every unit id once", f"unit id {question.unit_id!r} twice")
        seen.add(question.unit_id)


def titles_of(corpus: Corpus, root: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the title of each database: from `titles.json` of the root, else words made from the name."""
    path = root / "titles.json"
    given = read_mapping(corpus, path, "an object from database name to title") if path.exists() else {}
    return {name: str(given.get(name) or words(name)) for name in names}


def words(name: str) -> str:
    """Return an identifier as words: `cre_Theme_park` is "cre theme park", `bikeShare_1` "bike share"."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\W]+", " ", name)
    return re.sub(r"( \d+)+$", "", " ".join(split.split())).lower()


def origins_of(corpus: Corpus, root: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the origin of each database: `embedded` under the marker file, else from `ORIGIN.json`, else `original`.

    Raises:
        CorpusError: `ORIGIN.json` says another word than original, surrogate or replica, or names a database that is not there.
    """
    names = list(names)
    if (root / EMBEDDED_MARKER).exists():
        return dict.fromkeys(names, "embedded")
    path = root / "ORIGIN.json"
    given = read_mapping(corpus, path, "an object from database name to origin") if path.exists() else {}
    for name, origin in given.items():
        if origin not in ORIGINS:
            raise CorpusError(corpus, path, f"one of {', '.join(ORIGINS)} for {name}", repr(origin))
    # A misspelt name would drop the mark that keeps a replica's values out of the catalog.
    if unknown := sorted(set(given) - set(names)):
        raise CorpusError(corpus, path, "names of databases that are there", repr(unknown[0]))
    return {name: given.get(name, "original") for name in names}


def source_digest(root: Path, files: Iterable[Path], known: Mapping[str, str]) -> str:
    """Return the digest over files below `root` by relative path; `known` holds digests that were taken before.

    The optional files of a root (`titles.json`, `ORIGIN.json`, the marker) count where they exist.
    """
    optional = [root / name for name in ("titles.json", "ORIGIN.json", EMBEDDED_MARKER)]
    paths = {path for path in [*files, *optional] if path.is_file()}
    taken = {path.relative_to(root).as_posix(): sha256_file(path) for path in paths}
    return digest({**taken, **known})
