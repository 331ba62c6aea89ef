"""Rows of the Spider-style databases, from fixed seeds.

What belongs here: one function a database, giving every table's rows in the column order of its `schema.sql`. Named
values come first in their tables and are made extreme on purpose where a question asks for "the most". What does not:
the shared value pools (`pools.py`) and file writing (`generate.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pools import (
    BANDS,
    CITIES,
    COMPANIES,
    COUNTRIES,
    LAST,
    PLACES,
    SCHOOLS,
    Row,
    Tables,
    day,
    money,
    people,
    titles,
    weighted,
)

WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def harbor_records() -> Tables:
    r = Random(101)
    genres = ["folk", "indie rock", "jazz", "electronic", "blues", "soul"]
    artists: list[Row] = [
        [i, band, r.choice(CITIES[:12]), r.randint(1972, 2016), r.choice(genres)] for i, band in enumerate(BANDS, 1)
    ]
    owners = [1, 1, *[2] * 9, *[r.randint(3, 50) for _ in range(109)]]
    albums: list[Row] = [
        [i, title, owner, r.randint(1988, 2022), r.randint(800, 95000), money(r, 7.5, 26)]
        for i, (title, owner) in enumerate(zip(titles(r, 120), owners, strict=True), 1)
    ]
    for album in albums[40:45]:
        album[3] = 2015
    names = titles(r, 160)
    tracks: list[Row] = [[1, 1, 1, "Glass Harbor", 251]]
    for album in range(1, 121):
        for position in range(2 if album == 1 else 1, r.randint(3, 5)):
            tracks.append([len(tracks) + 1, album, position, r.choice(names), r.randint(118, 540)])
    return {"artists": artists, "albums": albums, "tracks": tracks}


def night_stage() -> Tables:
    r = Random(102)
    halls = ["Hall", "Theater", "Arena", "Ballroom", "Club"]
    first = ["Riverside", "Union", "Lakeview", "Old Mill", "Grand", "Station", "Harbor", "Cedar", "Orpheum", "Foundry"]
    names = [f"{a} {b}" for a in first for b in halls]
    venues: list[Row] = [[i, n, r.choice(CITIES[:10]), r.randint(12, 520) * 10] for i, n in enumerate(names, 1)]
    venues[16][3] = 6400
    performers: list[Row] = [[i, b, r.choice(COUNTRIES), money(r, 900, 12000)] for i, b in enumerate(BANDS, 1)]
    gigs: list[Row] = []
    for i in range(1, 241):
        who = 1 if i <= 7 else 2 if i <= 13 else r.randint(1, 50)
        sold_out = r.choice(["yes", "no", "no"])
        gigs.append([i, r.randint(1, 50), who, day(r, "2020-01-10", "2023-11-30"), sold_out])
    sales: list[Row] = [
        [i, r.randint(1, 240), r.choice([18.0, 24.5, 29.0, 35.5, 42.0, 58.0, 75.0]), r.randint(1, 60)]
        for i in range(1, 421)
    ]
    return {"venues": venues, "performers": performers, "gigs": gigs, "ticket_sales": sales}


def tune_radio() -> Tables:
    r = Random(103)
    presenters: list[Row] = [
        [i, n, r.choice(CITIES), r.randint(1998, 2022), r.randint(1950, 1999)] for i, n in enumerate(people(r, 50), 1)
    ]
    words = ["Morning", "Late", "Vinyl", "Harbor", "Sunday", "Open", "Jazz", "Kitchen", "Backroad", "Commuter"]
    kinds = ["Hour", "Session", "Mix", "Table", "Express", "Cafe", "Club"]
    programs: list[Row] = [
        [i, f"{a} {b}", r.randint(1, 50), r.choice(WEEKDAYS), r.choice([30, 45, 60, 90, 120])]
        for i, (a, b) in enumerate([(a, b) for a in words for b in kinds], 1)
    ]
    lead = ["Glass Harbor", "Copper Tide", "Saffron Skies", "Paper Lanterns"]
    languages = ["English", "English", "French", "Spanish", "Portuguese"]
    songs: list[Row] = [[i, t, r.choice(BANDS), r.choice(languages)] for i, t in enumerate(titles(r, 120, lead), 1)]
    songs[0][2] = "The Velvet Ferries"
    picks = [1] * 22 + [2] * 11 + [3] * 7 + [r.randint(4, 110) for _ in range(460)]
    r.shuffle(picks)
    airplays: list[Row] = [
        [i, song, r.randint(1, 70), day(r, "2022-01-01", "2023-12-31")] for i, song in enumerate(picks, 1)
    ]
    return {"presenters": presenters, "programs": programs, "songs": songs, "airplays": airplays}


def lantern_films() -> Tables:
    r = Random(104)
    directors: list[Row] = [
        [i, n, r.choice(COUNTRIES[:10]), r.randint(1938, 1992)]
        for i, n in enumerate(people(r, 50, ["Nadia Okafor", "Marek Dvorak"]), 1)
    ]
    directors[0][2] = "Nigeria"
    lead = ["Silent Orchard", "Winter Compass", "The Salt Road", "Copper Tide", "Glass Harbor"]
    films: list[Row] = [
        [i, t, r.randint(1, 50), r.randint(1996, 2023), money(r, 2, 90), r.randint(78, 176)]
        for i, t in enumerate(titles(r, 100, lead), 1)
    ]
    films[0][4], films[1][2] = 141.5, 1
    for film in films[20:27]:
        film[3] = 2015
    actors: list[Row] = [
        [i, n, r.choice(["female", "male"]), r.randint(1975, 2020)]
        for i, n in enumerate(people(r, 80, ["Leila Haddad"]), 1)
    ]
    castings: list[Row] = []
    for film in range(1, 101):
        cast = r.sample(range(2, 81), 3) + ([1] if film % 7 == 3 else [])
        for rank, actor in enumerate(cast):
            role = "lead" if rank == 0 else r.choice(["supporting", "supporting", "guest"])
            castings.append([film, actor, role, money(r, 20, 900)])
    return {"directors": directors, "films": films, "actors": actors, "castings": castings}


def corner_cinemas() -> Tables:
    r = Random(105)
    first = ["Roxy", "Odeon", "Plaza", "Rialto", "Lux", "Astor", "Apollo", "Regal", "Majestic", "Bijou"]
    cinemas: list[Row] = []
    for name in first:
        for city in r.sample(CITIES, 5):
            cinemas.append([len(cinemas) + 1, f"{name} {city}", city, r.randint(1928, 2019), r.randint(1, 9)])
    lead = ["Winter Compass", "Silent Orchard", "The Salt Road"]
    genres = ["Drama", "Comedy", "Horror", "Thriller", "Documentary", "Animation", "Adventure"]
    movies: list[Row] = [
        [i, t, r.choice(genres), r.choice([0, 6, 12, 16, 18])] for i, t in enumerate(titles(r, 60, lead), 1)
    ]
    screenings: list[Row] = []
    for i in range(1, 451):
        movie = 1 if i <= 24 else 2 if i <= 33 else r.randint(3, 60)
        price = r.choice([7.5, 8.0, 9.5, 11.0, 12.5])
        screenings.append([i, r.randint(1, 50), movie, day(r, "2021-02-01", "2023-12-20"), price, r.randint(8, 210)])
    return {"cinemas": cinemas, "movies": movies, "screenings": screenings}


def reel_society() -> Tables:
    r = Random(106)
    members: list[Row] = [
        [i, n, r.choice(CITIES[:11]), day(r, "2014-01-01", "2023-12-31"), r.randint(1941, 1999)]
        for i, n in enumerate(people(r, 90, ["Imani Baptiste"]), 1)
    ]
    members[37][4] = 2004
    lead = ["Copper Tide", "Silent Orchard", "Midnight Ferry"]
    formats = ["DVD", "Blu-ray", "16 mm", "35 mm"]
    collection: list[Row] = [
        [i, t, r.choice(formats), r.choice(COUNTRIES), r.randint(1931, 2021)]
        for i, t in enumerate(titles(r, 100, lead), 1)
    ]
    loans: list[Row] = []
    for i in range(1, 401):
        item = 1 if i <= 19 else r.randint(2, 100)
        loans.append([i, r.randint(1, 90), item, day(r, "2019-01-01", "2023-12-31"), r.randint(1, 28)])
    raters = r.sample(range(1, 91), 62)
    ratings: list[Row] = []
    for item in range(1, 101):
        for member in sorted(r.sample(raters, 9 if item == 2 else r.randint(1, 5))):
            ratings.append([member, item, r.randint(1, 5)])
    return {"members": members, "collection": collection, "loans": loans, "ratings": ratings}


def garden_outlet() -> Tables:
    r = Random(107)
    customers: list[Row] = []
    for i, name in enumerate(people(r, 80, ["Hollis Grant"]), 1):
        city, _, code = PLACES[0] if i == 1 else r.choice(PLACES)
        customers.append([i, name, city, code])
    suppliers: list[Row] = []
    nurseries = [f"{name} Nursery" for name in LAST[: 50 - len(COMPANIES)]]
    for name, contact in zip([*COMPANIES, *nurseries], people(r, 50), strict=True):
        suppliers.append([len(suppliers) + 1, name, contact, r.choice(CITIES)])
    nouns = ["Spade", "Rake", "Hose", "Trowel", "Bench", "Lantern", "Planter", "Fern", "Maple", "Rose Bush"]
    kinds = ["Classic", "Compact", "Country", "Deluxe", "Evergreen", "Heritage", "Patio", "Sturdy", "Terrace", "Urban"]
    groups = {"Fern": "plants", "Maple": "plants", "Rose Bush": "plants", "Bench": "furniture", "Lantern": "lighting",
              "Planter": "pots"}  # fmt: skip
    items: list[Row] = []
    for a in kinds:
        for b in nouns:
            supplier_id = 1 if len(items) % 11 == 4 else r.randint(2, 50)
            stock = r.randint(3, 240)
            group = groups.get(b, "tools")
            items.append([len(items) + 1, f"{a} {b}", group, supplier_id, money(r, 4, 120), stock])
    purchases: list[Row] = []
    for i in range(1, 421):
        customer = 1 if i <= 18 else r.randint(2, 80)
        purchases.append([i, customer, r.randint(1, 90), r.randint(1, 12), day(r, "2021-03-01", "2023-10-31")])
    return {"customers": customers, "suppliers": suppliers, "items": items, "purchases": purchases}


def gadget_depot() -> Tables:
    r = Random(108)
    clients: list[Row] = []
    for i, name in enumerate(people(r, 75), 1):
        city, _, code = r.choice(PLACES)
        clients.append([i, name, city, code, r.choice(["yes", "no"])])
    jobs = ["cashier", "repair technician", "buyer", "sales adviser", "driver"]
    staff: list[Row] = [
        [i, n, r.choice(jobs), day(r, "1958-01-01", "2001-12-31"), money(r, 2100, 4900)]
        for i, n in enumerate(people(r, 50), 1)
    ]
    kinds = ["Pocket Radio", "Desk Lamp", "Headset", "Power Bank", "Webcam", "Speaker", "Keyboard", "Smart Plug",
             "Dash Camera", "Projector"]  # fmt: skip
    groups = ["audio", "lighting", "audio", "power", "video", "audio", "computing", "power", "video", "video"]
    products: list[Row] = []
    for kind, group in zip(kinds, groups, strict=True):
        for model in range(1, 10):
            price = money(r, 9, 320)
            products.append([len(products) + 1, f"{kind} Model {model}", r.choice(COMPANIES[:12]), group, price])
    orders: list[Row] = []
    for i in range(1, 221):
        handler = None if i % 40 == 0 else r.randint(1, 50)
        orders.append([i, r.randint(1, 75), handler, day(r, "2022-01-02", "2023-12-24")])
    orders[-1][3] = "2023-12-30"
    lines: list[Row] = []
    for order in range(1, 221):
        for product in sorted(r.sample(range(1, 91), r.randint(1, 3))):
            lines.append([order, product, r.randint(1, 9)])
    return {"clients": clients, "staff": staff, "products": products, "orders": orders, "order_lines": lines}


def bookmill() -> Tables:
    r = Random(109)
    lead = ["Nadia Okafor", "Beatriz Moura", "Siobhan O'Hara"]
    authors: list[Row] = [
        [i, n, r.choice(COUNTRIES), r.randint(1961, 2019)] for i, n in enumerate(people(r, 60, lead), 1)
    ]
    authors[0][2] = "Nigeria"
    named = ["The Salt Road", "Hollow Crown Street", "A Map of Rain", "The Last Beekeeper"]
    publishers = ["Pinnacle Press", "Orchard Lane", "Northfield Mills", "Blue Heron Books", "Lighthouse House",
                  "Quill & Co", "Summit Editions", "Tern Publishing", "Foxglove Books", "Ninth Gate"]  # fmt: skip
    books: list[Row] = [
        [i, t, r.randint(1, 60), r.choice(publishers), r.randint(96, 780), money(r, 6, 38)]
        for i, t in enumerate(titles(r, 110, named), 1)
    ]
    books[0][5] = 64.0
    for book in (books[9], books[31], books[58]):
        book[2] = 1
    readers: list[Row] = [[i, n, r.choice(CITIES), r.randint(2005, 2023)] for i, n in enumerate(people(r, 70), 1)]
    sales: list[Row] = []
    for i in range(1, 361):
        book = 2 if i <= 8 else r.randint(1, 110)
        sales.append([i, book, r.randint(1, 70), r.randint(1, 5), day(r, "2021-01-04", "2023-12-23")])
    return {"authors": authors, "books": books, "readers": readers, "book_sales": sales}


def hillside_schools() -> Tables:
    r = Random(110)
    names = SCHOOLS + [f"{name} Annex" for name in SCHOOLS[:20]]
    districts = ["North", "South", "East", "West"]
    schools: list[Row] = [[i, n, r.choice(districts), r.randint(1871, 2009)] for i, n in enumerate(names, 1)]
    schools[12][3] = 1854
    subjects = ["Mathematics", "English", "History", "Biology", "Music", "Art"]
    teachers: list[Row] = [
        [i, n, r.randint(1, 50), r.choice(subjects), r.randint(380, 910) * 100]
        for i, n in enumerate(people(r, 90, ["Callum Reyes"]), 1)
    ]
    pupils: list[Row] = []
    for i, name in enumerate(people(r, 230), 1):
        school = 1 if i <= 19 else 2 if i <= 31 else r.randint(2, 50)
        city, _, code = PLACES[0] if i % 12 == 0 else r.choice(PLACES)
        pupils.append([i, name, school, city, code, r.randint(1, 8)])
    classes: list[Row] = []
    for i in range(1, 151):
        teacher = 1 if i <= 7 else r.randint(2, 90)
        level = r.randint(1, 8)
        subject = teachers[teacher - 1][3]
        room = f"{r.choice('ABC')}{r.randint(1, 19):02d}"
        classes.append([i, f"{subject} {level}{r.choice('ab')}", teacher, room, r.randint(1, 6)])
    return {"schools": schools, "teachers": teachers, "pupils": pupils, "classes": classes}


def evening_college() -> Tables:
    r = Random(111)
    fields = ["Languages", "Accounting", "Computing", "Crafts", "Health"]
    lead = ["Greta Sandoval", "Oskar Brandt"]
    tutors: list[Row] = [[i, n, r.choice(fields), money(r, 22, 61)] for i, n in enumerate(people(r, 50, lead), 1)]
    topics = ["Spanish", "French", "Bookkeeping", "Taxation", "Spreadsheets", "Web Design", "Pottery", "Weaving",
              "First Aid", "Nutrition", "Photography", "Carpentry"]  # fmt: skip
    levels = ["for Beginners", "Step Two", "in Depth", "Workshop", "Refresher", "Weekend"]
    courses: list[Row] = []
    for n, (topic, level) in enumerate([(t, v) for t in topics for v in levels]):
        tutor = 1 if n % 20 == 3 else 2 if n % 9 == 1 else r.randint(3, 50)
        courses.append([f"{409 + n:04d}", f"{topic} {level}", tutor, r.choice([2, 3, 4, 6]), money(r, 45, 390)])
    students: list[Row] = []
    for i, name in enumerate(people(r, 120), 1):
        school = "Maple Grove" if i % 13 == 5 else r.choice(SCHOOLS[1:])
        students.append([i, name, r.choice(CITIES), school, r.randint(1951, 2003)])
    terms = ["2022 spring", "2022 autumn", "2023 spring", "2023 autumn"]
    enrollments: list[Row] = []
    for student in range(1, 121):
        for course in sorted(r.sample(range(72), r.randint(1, 5))):
            mark = None if r.random() < 0.05 else r.randint(48, 100)
            enrollments.append([student, courses[course][0], r.choice(terms), mark])
    return {"tutors": tutors, "courses": courses, "students": students, "enrollments": enrollments}


def river_rowing() -> Tables:
    r = Random(112)
    members: list[Row] = [
        [i, n, r.choice(CITIES[:9]), r.randint(1999, 2023), day(r, "1948-01-01", "2004-12-31")]
        for i, n in enumerate(people(r, 80, ["Tobias Lindqvist", "Priya Raman"]), 1)
    ]
    members[0][2:4] = ["New Haven", 2013]
    members[44][4] = "2006-05-17"
    for member in members[50:56]:
        member[3] = 2021
    first = ["Heron", "Otter", "Kingfisher", "Swift", "Pike", "Mallard", "Osprey", "Dragonfly", "Egret", "Salmon"]
    classes = {"single scull": (1800, 5200), "double scull": (3900, 9000), "coxless four": (9000, 17000),
               "quad": (10500, 21000), "eight": (19000, 41000)}  # fmt: skip
    builders = ["Alder & Finch", "Granite Peak", "Westbrook Company", "Blue Oar Yard", "Ironbark Group"]
    boats: list[Row] = []
    for n, name in enumerate([f"{a} {b}" for b in ("One", "Two", "Three", "Four", "Five") for a in first]):
        kind = r.choice(list(classes))
        maker = builders[0] if n % 3 == 0 else r.choice(builders)
        boats.append([n + 1, name, kind, maker, money(r, *classes[kind])])
    steering = r.sample(range(1, 81), 58)
    outings: list[Row] = [
        [i, r.randint(1, 50), r.choice(steering), day(r, "2022-03-01", "2023-10-31"), round(r.uniform(3, 24), 1)]
        for i in range(1, 321)
    ]
    return {"club_members": members, "boats": boats, "outings": outings}


def city_league() -> Tables:
    r = Random(113)
    suffixes = ["Wanderers", "Rovers", "United", "Athletic"]
    names = [f"{city} {suffix}" for suffix in suffixes for city in CITIES[:13]]
    coaches = people(r, 52, ["Renée Dubois"])
    order = names.index("Lowell Wanderers")
    coaches[0], coaches[order] = coaches[order], coaches[0]
    teams: list[Row] = [
        [i, n, n.rsplit(" ", 1)[0], c, r.randint(1903, 1999)]
        for i, (n, c) in enumerate(zip(names, coaches, strict=True), 1)
    ]
    for team in teams[::9]:
        team[2] = "Boston"
    positions = ["goalkeeper", "defender", "defender", "midfielder", "midfielder", "forward"]
    players: list[Row] = [
        [i, n, r.randint(1, 52), f"{r.randint(1, 23):02d}", r.choice(positions), r.randint(1983, 2005)]
        for i, n in enumerate(people(r, 220, ["Yusuf Demir"]), 1)
    ]
    players[0][4] = "forward"
    matches: list[Row] = []
    for i in range(1, 151):
        home, away = r.sample(range(1, 53), 2)
        matches.append([i, home, away, day(r, "2020-08-20", "2023-06-10"), r.randint(40, 900)])
    scorers = [1] * 21 + [r.randint(2, 220) for _ in range(439)]
    r.shuffle(scorers)
    goals: list[Row] = [[i, r.randint(1, 150), scorer, r.randint(1, 90)] for i, scorer in enumerate(scorers, 1)]
    return {"teams": teams, "players": players, "matches": matches, "goals": goals}


def trail_runners() -> Tables:
    r = Random(114)
    classes = ["junior", "open", "open", "masters 40", "masters 50"]
    runners: list[Row] = [
        [f"{37 + i:04d}", n, r.choice(CITIES), r.randint(2008, 2023), r.choice(classes)]
        for i, n in enumerate(people(r, 110, ["Yusuf Demir", "Dmitri Volkov"]))
    ]
    for runner in runners[60:69]:
        runner[3] = 2021
    first = ["Granite Ridge", "Beaver Pond", "Long Meadow", "Iron Bridge", "Old Quarry", "Falcon Cliff", "Mill Brook",
             "Birch Hollow", "Signal Hill", "Otter Creek"]  # fmt: skip
    races: list[Row] = []
    for name in first:
        for distance in (10, 21, 30, 42, 50):
            host = "Burlington" if len(races) % 5 == 2 else r.choice(CITIES)
            km = round(distance + r.uniform(-0.9, 0.9), 1)
            races.append([len(races) + 1, f"{name} {distance}", host, day(r, "2021-04-01", "2023-10-30"), km, None])
            races[-1][5] = money(r, 12, 95)
    finishes: list[Row] = []
    for race in range(1, 51):
        field = r.sample(range(1, 110), 7)
        if race % 6 == 1:
            field = [0, *field[:6]]
            r.shuffle(field)
        pace, minutes = r.uniform(4.4, 5.6), 0.0
        minutes = pace * float(str(races[race - 1][4]))
        for place, runner_index in enumerate(field, 1):
            minutes += r.randint(1, 14)
            finishes.append([race, runners[runner_index][0], round(minutes), place])
    return {"runners": runners, "races": races, "finishes": finishes}


def feeder_air() -> Tables:
    r = Random(115)
    pilots: list[Row] = [
        [i, n, r.choice(CITIES[:14]), r.randint(600, 14800), day(r, "1960-01-01", "1997-12-31")]
        for i, n in enumerate(people(r, 60, ["Tobias Lindqvist"]), 1)
    ]
    pilots[0][3] = 19240
    makers = ["Norvik Dynamics", "Westbrook Company", "Kestrel Power", "Summit Aircraft"]
    aircraft: list[Row] = [
        [f"N{r.randint(100, 999)}{chr(65 + i % 26)}{chr(65 + i // 26)}", f"Swift {r.choice([20, 40, 60])}", None, 0]
        for i in range(50)
    ]
    for plane in aircraft:
        plane[2], plane[3] = r.choice(makers), r.choice([19, 34, 50, 72])
    flights: list[Row] = []
    for i in range(1, 261):
        origin, destination = r.sample(CITIES[:14], 2)
        tail = r.choice(aircraft)[0]
        flights.append([i, origin, destination, day(r, "2022-01-01", "2023-12-31"), r.randint(1, 60), tail])
    travellers = people(r, 90, ["Jonas Whitfield"])
    bookings: list[Row] = []
    for i in range(1, 501):
        who = travellers[0] if i <= 16 else r.choice(travellers[1:])
        bookings.append([i, r.randint(1, 260), who, money(r, 59, 540)])
    return {"pilots": pilots, "aircraft": aircraft, "flights": flights, "bookings": bookings}


def county_archive() -> Tables:
    r = Random(116)
    departments = ["Maps", "Manuscripts", "Photographs", "Reading Room", "Restoration"]
    employees: list[Row] = [
        [i, n, r.choice(departments), day(r, "1957-01-01", "2000-12-31"), r.randint(310, 780) * 100]
        for i, n in enumerate(people(r, 55, ["Greta Sandoval", "Oskar Brandt"]), 1)
    ]
    employees[20][3] = "2002-03-08"
    families = ["Whitlock", "Mercer", "Holloway", "Farrow", "Easton", "Osborne", "Castellan", "Abbott", "Ramsey",
                "Kaplan"]  # fmt: skip
    kinds = ["Family Papers", "Estate Maps", "Shipping Ledgers", "Photographs", "Court Rolls", "Letters"]
    holdings: list[Row] = []
    for name in [f"{a} {b}" for a in families for b in kinds]:
        keeper = 1 if len(holdings) % 8 == 5 else r.randint(2, 55)
        holdings.append([len(holdings) + 1, name, keeper, round(r.uniform(0.5, 68), 1)])
    kinds = ["letter", "map", "ledger", "photograph", "deed"]
    towns = [*CITIES[:8], "Marblehead", "Nantucket", "Gloucester"]
    documents: list[Row] = [
        [f"A-{i:04d}", r.randint(1, 60), r.choice(kinds), r.randint(1742, 1964), r.choice(towns)] for i in range(1, 261)
    ]
    guests = people(r, 60)
    visits: list[Row] = []
    for i in range(1, 301):
        city = weighted(r, CITIES, 1)[0]
        visits.append([i, r.choice(guests), city, f"A-{r.randint(1, 260):04d}", day(r, "2022-01-03", "2023-12-22")])
    return {"employees": employees, "holdings": holdings, "documents": documents, "visits": visits}


DATABASES: dict[str, Callable[[], Tables]] = {
    "harbor_records": harbor_records,
    "night_stage": night_stage,
    "tune_radio": tune_radio,
    "lantern_films": lantern_films,
    "corner_cinemas": corner_cinemas,
    "reel_society": reel_society,
    "garden_outlet": garden_outlet,
    "gadget_depot": gadget_depot,
    "bookmill": bookmill,
    "hillside_schools": hillside_schools,
    "evening_college": evening_college,
    "river_rowing": river_rowing,
    "city_league": city_league,
    "trail_runners": trail_runners,
    "feeder_air": feeder_air,
    "county_archive": county_archive,
}
