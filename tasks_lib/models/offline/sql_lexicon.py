"""Small English lists by which a request's shape is read: comparisons, superlatives, cue phrases. Data only."""

from __future__ import annotations

NUMBER_WORDS = {
    "one": "1",
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
}

COMPARISONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("greater", "than", "or", "equal", "to"), ">="),
    (("less", "than", "or", "equal", "to"), "<="),
    (("no", "less", "than"), ">="),
    (("no", "fewer", "than"), ">="),
    (("not", "less", "than"), ">="),
    (("no", "more", "than"), "<="),
    (("not", "more", "than"), "<="),
    (("at", "least"), ">="),
    (("at", "most"), "<="),
    (("up", "to"), "<="),
    (("more", "than"), ">"),
    (("greater", "than"), ">"),
    (("higher", "than"), ">"),
    (("larger", "than"), ">"),
    (("bigger", "than"), ">"),
    (("older", "than"), ">"),
    (("longer", "than"), ">"),
    (("taller", "than"), ">"),
    (("heavier", "than"), ">"),
    (("later", "than"), ">"),
    (("less", "than"), "<"),
    (("fewer", "than"), "<"),
    (("lower", "than"), "<"),
    (("smaller", "than"), "<"),
    (("younger", "than"), "<"),
    (("shorter", "than"), "<"),
    (("lighter", "than"), "<"),
    (("cheaper", "than"), "<"),
    (("earlier", "than"), "<"),
    (("over",), ">"),
    (("above",), ">"),
    (("exceeding",), ">"),
    (("exceeds",), ">"),
    (("exceed",), ">"),
    (("after",), ">"),
    (("since",), ">="),
    (("below",), "<"),
    (("under",), "<"),
    (("before",), "<"),
    (("exactly",), "="),
)
"""Phrases before a number, longest first where one begins another."""

HINTS: dict[str, tuple[str, ...]] = {
    "older": ("age",),
    "younger": ("age",),
    "longer": ("length", "duration", "distance", "time", "minute"),
    "shorter": ("length", "duration", "height", "distance", "time", "minute"),
    "taller": ("height",),
    "heavier": ("weight",),
    "lighter": ("weight",),
    "cheaper": ("price", "cost", "fee"),
    "after": ("year", "date", "time", "founded", "opened"),
    "before": ("year", "date", "time", "founded", "opened"),
    "since": ("year", "date"),
    "later": ("year", "date", "time"),
    "earlier": ("year", "date", "time"),
    "larger": ("area", "size", "population", "capacity"),
    "bigger": ("area", "size", "population", "capacity"),
    "smaller": ("area", "size", "population", "capacity"),
}
"""Columns that a comparative means when none is named, by words of their names."""

SUPERLATIVES: dict[str, tuple[bool, tuple[str, ...]]] = {
    "most": (True, ()),
    "highest": (True, ("score", "rating", "price", "height", "salary", "elevation")),
    "largest": (True, ("area", "size", "population", "capacity", "amount")),
    "biggest": (True, ("area", "size", "population", "capacity", "amount")),
    "greatest": (True, ("amount", "number")),
    "maximum": (True, ()),
    "max": (True, ()),
    "best": (True, ("rating", "score", "rank")),
    "top": (True, ()),
    "fewest": (False, ()),
    "least": (False, ()),
    "lowest": (False, ("score", "rating", "price", "salary", "elevation")),
    "smallest": (False, ("area", "size", "population", "capacity", "amount")),
    "minimum": (False, ()),
    "min": (False, ()),
    "oldest": (True, ("age", "-birth", "-dob", "-founded", "-year", "-date", "-opened")),
    "youngest": (False, ("age", "-birth", "-dob", "-founded", "-year", "-date")),
    "newest": (True, ("year", "date", "founded", "opened", "time")),
    "latest": (True, ("date", "year", "time")),
    "recent": (True, ("date", "year", "time")),
    "recently": (True, ("date", "year", "time")),
    "earliest": (False, ("date", "year", "time")),
    "longest": (True, ("length", "duration", "distance", "time", "minute", "day")),
    "shortest": (False, ("length", "duration", "height", "distance", "time", "minute")),
    "tallest": (True, ("height",)),
    "heaviest": (True, ("weight",)),
    "lightest": (False, ("weight",)),
    "cheapest": (False, ("price", "cost", "fee")),
    "expensive": (True, ("price", "cost", "fee", "rate")),
    "fastest": (True, ("speed", "-time")),
    "slowest": (False, ("speed", "-time")),
    "richest": (True, ("money", "wealth", "salary", "income")),
    "popular": (True, ("popularity", "population")),
}
"""Word -> (descending, columns it means when none is named; a minus turns the direction round)."""

GROUP_CUES: tuple[tuple[str, ...], ...] = (
    ("for", "each"),
    ("for", "every"),
    ("of", "each"),
    ("in", "each"),
    ("by", "each"),
    ("to", "each"),
    ("from", "each"),
    ("on", "each"),
    ("at", "each"),
    ("with", "each"),
    ("does", "each"),
    ("did", "each"),
    ("in", "every"),
    ("of", "every"),
    ("grouped", "by"),
    ("group", "by"),
    ("broken", "down", "by"),
    ("for", "different"),
    ("of", "different"),
    ("in", "different"),
    ("per",),
    ("each",),
    ("every",),
)

ORDER_CUES: tuple[tuple[str, ...], ...] = (
    ("ordered", "by"),
    ("sorted", "by"),
    ("order", "by"),
    ("sort", "by"),
    ("ordered", "in"),
    ("sorted", "in"),
    ("order", "of"),
    ("sort", "them", "by"),
    ("order", "them", "by"),
    ("listed", "in"),
    ("arranged", "by"),
    ("in", "alphabetical", "order"),
    ("in", "alphabetic", "order"),
    ("in", "lexicographical", "order"),
    ("in", "lexicographic", "order"),
    ("in", "ascending", "order"),
    ("in", "descending", "order"),
    ("in", "descending", "alphabetical", "order"),
    ("in", "ascending", "alphabetical", "order"),
    ("ascending", "order"),
    ("descending", "order"),
    ("alphabetically",),
)

DESCENDING = frozenset({"descending", "desc", "decreasing", "reverse", "descendingly"})

LISTING = frozenset(
    [
        "show",
        "list",
        "give",
        "return",
        "find",
        "tell",
        "what",
        "which",
        "display",
        "get",
        "report",
        "name",
        "names",
        "provide",
        "who",
        "how",
    ]
)
"""Words that begin a part of the request which says what to return."""

ENDING = frozenset(
    [
        "where",
        "whose",
        "who",
        "that",
        "which",
        "with",
        "from",
        "in",
        "for",
        "ordered",
        "sorted",
        "having",
        "have",
        "has",
        "had",
        "when",
        "while",
        "on",
        "at",
        "whom",
        "located",
        "working",
        "made",
        "produced",
        "by",
        "per",
        "only",
    ]
)
"""Words that end such a part."""

PLACE_HINTS: dict[str, tuple[str, ...]] = {
    "from": ("country", "nationality", "city", "state", "hometown", "origin", "location", "home"),
    "in": ("city", "country", "state", "location", "continent", "county", "place", "town", "region", "language"),
    "at": ("location", "place", "school", "university", "city"),
    "by": ("author", "artist", "director", "writer", "name", "manufacturer"),
    "named": ("name", "title"),
    "called": ("name", "title"),
    "titled": ("title", "name"),
    "name": ("name",),
    "speak": ("language",),
}
"""Columns that a bare value means after such a word."""

FUNCTIONS: dict[str, str] = {
    "average": "AVG",
    "mean": "AVG",
    "avg": "AVG",
    "total": "SUM",
    "sum": "SUM",
    "summed": "SUM",
    "maximum": "MAX",
    "max": "MAX",
    "minimum": "MIN",
    "min": "MIN",
}
"""Word -> aggregate function."""

ALWAYS_LISTING = frozenset({"show", "list", "give", "return", "find", "what", "display"})
"""Of those, the words that begin such a part anywhere."""

HAVING_WORDS = frozenset(
    ["have", "has", "had", "having", "with", "by", "in", "of", "are", "contain", "taken", "made", "that", "who"]
)
"""Words one of which stands just before a condition on a count: `that have at least 2 keepers`."""

COMMON_DOINGS = frozenset({"frequently", "commonly", "often"})
COMMON = COMMON_DOINGS | {"common", "frequent"}
"""After `most` or `least`: how often a value occurs. Doings speak of what stands before them."""

GRADED = frozenset({"recent", "recently", "popular", "expensive"})
"""Superlatives only after `most` or `least`."""

DOWNWARDS: tuple[tuple[str, ...], ...] = (
    ("high", "to", "low"),
    ("highest", "to", "lowest"),
    ("most", "to", "least"),
    ("oldest", "to", "youngest"),
)

MOST_ROWS = 1000
"""A number beside a superlative beyond this is no number of rows."""
