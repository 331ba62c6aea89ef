"""Shared value pools of the embedded corpora: people, places, titles, companies.

What belongs here: invented values that several databases draw from on purpose, so that a film and a song may share a
title, or one person may be a pilot here and a rower there. What does not: rows of one database (see `rows_*.py`).
"""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

Value = str | int | float | None
Row = list[Value]
Tables = dict[str, list[Row]]

# People named in questions; the others are drawn from the two lists below.
NAMED_PEOPLE = [
    "Nadia Okafor", "Tobias Lindqvist", "Siobhan O'Hara", "Marek Dvorak", "Renée Dubois", "Hollis Grant",
    "Imani Baptiste", "Yusuf Demir", "Greta Sandoval", "Oskar Brandt", "Leila Haddad", "Callum Reyes",
    "Priya Raman", "Jonas Whitfield", "Beatriz Moura", "Dmitri Volkov",
]  # fmt: skip
FIRST = [
    "Ada", "Amir", "Anya", "Bruno", "Carla", "Cedric", "Dalia", "Edwin", "Elena", "Felix", "Freya", "Gideon", "Hana",
    "Hugo", "Ines", "Isaac", "Jana", "Joel", "Kira", "Lars", "Lena", "Lucas", "Maeve", "Milo", "Mona", "Nils", "Nora",
    "Omar", "Paula", "Petra", "Quinn", "Rafael", "Rosa", "Samir", "Selma", "Tessa", "Theo", "Ursula", "Viktor", "Wanda",
]  # fmt: skip
LAST = [
    "Abbott", "Alvarez", "Bakker", "Barros", "Becker", "Calloway", "Castellan", "Chowdhury", "Dahl", "Easton",
    "Eriksen", "Farrow", "Ferreira", "Gallagher", "Gupta", "Hartmann", "Holloway", "Ibarra", "Jansen", "Kaplan",
    "Kowalski", "Larkin", "Lombardi", "Mbeki", "Mercer", "Nakamura", "Novak", "Osborne", "Pereira", "Quist",
    "Ramsey", "Romero", "Sorensen", "Tanaka", "Underhill", "Vasquez", "Weaver", "Yilmaz", "Zapata", "Zeller",
]  # fmt: skip

NAMED_TITLES = [
    "Glass Harbor", "Silent Orchard", "Winter Compass", "Copper Tide", "The Salt Road", "Paper Lanterns",
    "Midnight Ferry", "Hollow Crown Street", "A Map of Rain", "The Last Beekeeper", "Saffron Skies", "Borrowed Light",
]  # fmt: skip
TITLE_A = [
    "Amber", "Broken", "Crimson", "Distant", "Electric", "Fading", "Golden", "Hidden", "Iron", "Lonely", "Northern",
    "Quiet", "Restless", "Scarlet", "Velvet", "Wild",
]  # fmt: skip
TITLE_B = [
    "Avenue", "Bridge", "Canyon", "Dawn", "Echo", "Garden", "Horizon", "Island", "Letters", "Mirror", "Parade",
    "River", "Shadows", "Signal", "Summer", "Voyage",
]  # fmt: skip

# City, state, postal code kept as text: most codes start with a zero.
PLACES = [
    ("Boston", "MA", "02134"), ("Portland", "ME", "04101"), ("Providence", "RI", "02903"), ("Hartford", "CT", "06103"),
    ("Burlington", "VT", "05401"), ("Concord", "NH", "03301"), ("Newark", "NJ", "07102"), ("Worcester", "MA", "01608"),
    ("Trenton", "NJ", "08608"), ("New Haven", "CT", "06510"), ("Lowell", "MA", "01852"), ("Augusta", "ME", "04330"),
    ("Albany", "NY", "12207"), ("Scranton", "PA", "18503"), ("Salem", "MA", "01970"), ("Bangor", "ME", "04401"),
]  # fmt: skip
CITIES = [place[0] for place in PLACES]

COMPANIES = [
    "Alder & Finch", "Norvik Dynamics", "Bluewater Supply", "Cobalt Works", "Dunmore Brothers", "Eastgate Trading",
    "Fairholm Industries", "Granite Peak", "Halcyon Systems", "Ironbark Group", "Juniper Labs", "Kestrel Power",
    "Lodestar Foods", "Meridian Goods", "Northfield Mills", "Orchard Lane", "Pinnacle Tools", "Quarry Hill",
    "Redfern Partners", "Summit Lighting", "Tallgrass Farms", "Umbra Electric", "Vantage Wares", "Westbrook Company",
]  # fmt: skip

SCHOOLS = [
    "Maple Grove", "Stonebridge", "Riverside", "Oak Hollow", "Lakeview", "Fairmount", "Cedar Point", "Kingsway",
    "Willow Creek", "Ashford", "Bayfield", "Clearwater", "Dunhaven", "Elmhurst", "Foxglove", "Greenfield",
    "Hawthorne", "Ivy Hill", "Juniper Ridge", "Larkspur", "Meadowbrook", "Northgate", "Pinecrest", "Rosewood",
    "Silver Birch", "Thornbury", "Valley Forge Road", "Westlake", "Yarrow", "Zephyr Hill",
]  # fmt: skip

BANDS = [
    "The Velvet Ferries", "Marble Choir", "Tin Sparrow", "Orange Cathedral", "The Slow Comets", "Harbor Ghosts",
    "Neon Orchard", "The Paper Kings", "Static Meadow", "Blue Lantern Trio", "The Night Gardeners", "Copper Pines",
    "Wolf & Needle", "The Tidewalkers", "Electric Almanac", "Sunday Machinery", "The Glass Bicycles", "Iron Lullaby",
    "Moth Parade", "The Borrowed Suits", "Silver Cartography", "The Long Weekenders", "Canary District", "Foxglove Five",
    "The Distant Cousins", "Velour Station", "Ember & Oak", "The Quiet Riots Club", "Pale Telegraph", "Rust Ballet",
    "The Migrating Hearts", "Cedar Hymns", "Pocket Thunder", "The Unsent Letters", "Honey Voltage", "Lowland Fires",
    "The Ninth Umbrella", "Salt Museum", "Twin Anchors", "The Wandering Clerks", "Violet Engines", "Winterkin",
    "The Idle Saints", "Brass Monsoon", "Little Observatory", "The Card Sharps", "Juniper Sky", "Mountain Radio",
    "The Postscripts", "Kite Season",
]  # fmt: skip

COUNTRIES = [
    "Canada", "Mexico", "Brazil", "France", "Germany", "Italy", "Spain", "Portugal", "Poland", "Sweden", "Norway",
    "Kenya", "Nigeria", "India", "Japan", "South Korea",
]  # fmt: skip


def _combine(left: list[str], right: list[str], named: list[str], count: int, seed: int) -> list[str]:
    pairs = [f"{a} {b}" for a in left for b in right]
    return named + Random(seed).sample(pairs, count - len(named))


PEOPLE = _combine(FIRST, LAST, NAMED_PEOPLE, 260, seed=11)
TITLES = _combine(TITLE_A, TITLE_B, NAMED_TITLES, 180, seed=12)


def people(r: Random, count: int, first: list[str] | None = None) -> list[str]:
    """`count` different people; those of `first` lead, the other named people never appear by chance."""
    lead = first or []
    rest = [name for name in PEOPLE if name not in NAMED_PEOPLE]
    return lead + r.sample(rest, count - len(lead))


def titles(r: Random, count: int, first: list[str] | None = None) -> list[str]:
    """`count` different titles; those of `first` lead, the other named titles never appear by chance."""
    lead = first or []
    rest = [name for name in TITLES if name not in NAMED_TITLES]
    return lead + r.sample(rest, count - len(lead))


def day(r: Random, first: str, last: str) -> str:
    """A day between two ISO days, both included, as ISO text."""
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    return (start + timedelta(days=r.randint(0, (end - start).days))).isoformat()


def money(r: Random, low: float, high: float) -> float:
    """An amount with two decimals."""
    return round(r.uniform(low, high), 2)


def weighted(r: Random, pool: list[str], count: int) -> list[str]:
    """`count` values of `pool`, earlier values more often, so that counts per value differ."""
    weights = [1.0 / (rank + 2) for rank in range(len(pool))]
    return r.choices(pool, weights=weights, k=count)
