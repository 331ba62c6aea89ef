"""PRIVATE. How facts about a schema are put into words: identifiers as words, values fit to be shown, physical names hidden.

Text rules only; which facts enter the catalog is decided in `capabilities`, `values`, `relations` and `routedb`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MAX_VALUE = 60
"""Characters of a value in the catalog; a longer one is prose, not something to find a database by."""

_SPLIT = re.compile(r"[_\W]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_PRIVATE_COLUMN = re.compile(r"passw|passwd|secret|token|ssn|social security|credit card|e-?mail|phone|fax|iban", re.I)
_PERSONAL = re.compile(r"@|https?://|^\+?[\d(][\d\s().-]{7,}\d$|[0-9a-f]{24,}$", re.I)
_PLAIN = re.compile(r"-?\d+(\.\d+)?|\d{4}-\d{2}-\d{2}( .*)?")  # numbers and dates look like telephone numbers
_MARKED = re.compile(r"[_\d]")


def words(identifier: str) -> str:
    """An identifier as lower-case words: `StuID` -> `stu id`, `singer_in_concert` -> `singer in concert`."""
    return " ".join(part.lower() for part in _SPLIT.split(identifier) if part)


def singular(name: str) -> str:
    """The last word of a name in words as one of them, by plain rules: `order items` -> `order item`, `cities` -> `city`."""
    if re.search(r"(?:ss|us|is|news|series|[^s]cs)$", name) or len(name.rpartition(" ")[2]) < 4:
        return name
    for end, one in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("s", "")):
        if name.endswith(end):
            return name.removesuffix(end) + one
    return name


def safe_value(value: str) -> bool:
    """Whether a value may be shown: short, printable, and no address, link, telephone number or hash."""
    return (
        0 < len(value.strip()) <= MAX_VALUE
        and value.isprintable()
        and "\ufffd" not in value
        and (_PLAIN.fullmatch(value.strip()) is not None or not _PERSONAL.search(value.strip()))
    )


def private_column(name: str, meaning: str) -> bool:
    """Whether a column holds secrets or ways to reach people; none of its values are shown."""
    return bool(_PRIVATE_COLUMN.search(words(name)) or _PRIVATE_COLUMN.search(words(meaning)))


def listed(items: Sequence[str]) -> str:
    """`a, b and c`."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + f" and {items[-1]}" if items else ""


class Hider:
    """Replaces physical database names by their words (known fault K01).

    Names that no ordinary text holds, those with `_` or a digit, are replaced wherever they stand. A name that is one plain
    word cannot be told from that word, but for where it qualifies another ("disney.characters"): there the dot goes. Without
    a match the text is returned as it was.
    """

    def __init__(self, names: Iterable[str]) -> None:
        names = list(names)
        self._words = {name.lower(): words(name) for name in names if _MARKED.search(name)}
        marked = sorted(self._words, key=lambda name: (-len(name), name))
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, marked))})(?!\w)", re.I) if marked else None
        plain = sorted({name for name in names if not _MARKED.search(name)}, key=lambda name: (-len(name), name))
        qualified = rf"(?<![\w.])({'|'.join(map(re.escape, plain))})\.(?=[A-Za-z_])"
        self._qualified = re.compile(qualified, re.I) if plain else None

    def __call__(self, text: str) -> str:
        """`text` without physical names."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: self._words[found.group().lower()], text)
        return self._qualified.sub(r"\1 ", text) if self._qualified is not None else text
