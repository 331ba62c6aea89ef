"""Rows of the BIRD-style databases, from fixed seeds.

What belongs here: one function a database, giving every table's rows in the column order of its `schema.sql`; coded
values and abbreviated names on purpose, explained by column meanings and evidence. What does not: the shared value
pools (`pools.py`) and file writing (`generate.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from random import Random

from pools import (
    BANDS,
    CITIES,
    COMPANIES,
    COUNTRIES,
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

BRANDS = ["Lodestar Foods", "Tallgrass Farms", "Northfield Mills", "Juniper Labs", "Orchard Lane", "Meridian Goods",
          "Redfern Partners", "Dunmore Brothers"]  # fmt: skip


def metro_grocers() -> Tables:
    r = Random(201)
    streets = ["Main Street", "Elm Square", "Depot Road", "Harbor Way", "Mill Lane"]
    stores: list[Row] = []
    for n in range(55):
        city, state, _ = PLACES[2] if n % 9 == 4 else r.choice(PLACES[:12])
        name = f"{city} {streets[n % 5]} {n // 5 + 1}"
        stores.append([n + 1, name, city, state, r.randint(60, 520) * 100, day(r, "1971-01-01", "2021-12-31")])
    foods = [("Rolled Oats", "DR"), ("Apple Juice", "BV"), ("Spinach", "FR"), ("Dish Soap", "HH"), ("Lentils", "DR"),
             ("Green Tea", "BV"), ("Goat Cheese", "FR"), ("Paper Towels", "HH"), ("Rye Bread", "FR"),
             ("Tomato Sauce", "DR")]  # fmt: skip
    goods: list[Row] = []
    for n in range(100):
        article, category = foods[n % 10]
        brand = BRANDS[0] if n % 6 == 1 else r.choice(BRANDS[1:])
        goods.append([f"{367 + n:06d}", f"{article} {n // 10 + 1}", brand, category, money(r, 0.9, 14)])
    receipts: list[Row] = [
        [i, r.randint(1, 55), day(r, "2023-01-02", "2023-12-30"), r.choice("CDDDV")] for i in range(1, 301)
    ]
    lines: list[Row] = []
    for receipt in range(1, 301):
        for n in sorted(r.sample(range(100), r.randint(2, 5))):
            lines.append([receipt, goods[n][0], r.randint(1, 12), r.choice([0, 0, 0, 5, 10, 20])])
    return {"stores": stores, "goods": goods, "receipts": receipts, "receipt_items": lines}


def wholesale_hub() -> Tables:
    r = Random(202)
    depots: list[Row] = []
    for n in range(50):
        city = CITIES[n % 16]
        depots.append([n + 1, f"{city} Depot {n // 16 + 1}", city, r.randint(2, 24)])
    names = ["Napkins", "Olive Oil", "Bleach", "Basmati Rice", "Candles", "Sea Salt", "Lamp Oil", "Honey", "Cups"]
    food = {"Olive Oil", "Basmati Rice", "Sea Salt", "Honey"}
    articles: list[Row] = []
    for n in range(90):
        name = names[n % 9]
        brand = BRANDS[2] if n % 5 == 2 else r.choice([b for b in BRANDS if b != BRANDS[2]])
        hazard = 1 if name in {"Bleach", "Lamp Oil"} else 0
        group = "F" if name in food else "N"
        articles.append([f"{2080 + n:05d}", f"{name}, size {n // 9 + 1}", brand, group, hazard])
    buyers: list[Row] = []
    for n in range(96):
        city, _, code = PLACES[2] if n % 8 == 3 else r.choice(PLACES[:15])
        label = COMPANIES[n % 24]
        kind = ["Kitchens", "Stores", "Services", "Markets"][n // 24]
        buyers.append([n + 1, f"{label} {kind}", city, code, "RSIS"[n // 24]])
    shipments: list[Row] = [
        [i, r.randint(1, 50), r.randint(1, 96), day(r, "2022-06-01", "2023-12-20"), None] for i in range(1, 261)
    ]
    for shipment in shipments:
        shipment[4] = r.choice(["DLV", "DLV", "DLV", "TRN", "RET"])
    lines: list[Row] = []
    for shipment in range(1, 261):
        for n in sorted(r.sample(range(90), r.randint(1, 3))):
            lines.append([shipment, articles[n][0], r.randint(1, 40), money(r, 11, 140)])
    return {"depots": depots, "articles": articles, "buyers": buyers, "shipments": shipments, "shipment_lines": lines}


def state_academies() -> Tables:
    r = Random(203)
    names = SCHOOLS + [f"{name} Upper School" for name in SCHOOLS[:24]]
    counties = ["Ashdown", "Calder", "Merrow", "Pell", "Tamar", "Wexley"]
    academies: list[Row] = []
    for i, name in enumerate(names, 1):
        _, _, code = PLACES[2] if i % 10 == 6 else r.choice(PLACES)
        academies.append([i, name, r.choice(counties), code, r.choice("EEMH"), 1 if r.random() < 0.3 else 0])
    enrolment: list[Row] = []
    budgets: list[Row] = []
    star = names.index("Larkspur") + 1
    for school in range(1, len(names) + 1):
        size = r.randint(180, 1900)
        for year in (2020, 2021, 2022):
            size = max(120, size + r.randint(-90, 90))
            share = 0.97 if school == star else r.uniform(0.05, 0.9)
            enrolment.append([school, year, size, round(size * share)])
            budgets.append([school, year, round(size * r.uniform(9.1, 16.8), 1), round(size / r.uniform(11, 19), 1)])
    return {"academies": academies, "enrolment": enrolment, "budgets": budgets}


def exam_board() -> Tables:
    r = Random(204)
    names = SCHOOLS + [f"{name} Hall" for name in SCHOOLS[:22]]
    regions = ["Coast", "Hills", "Lakes", "Metro"]
    centres: list[Row] = [[i, n, r.choice(regions), r.choice("PPIG")] for i, n in enumerate(names, 1)]
    star = names.index("Larkspur") + 1
    candidates: list[Row] = []
    for i, name in enumerate(people(r, 180, ["Jonas Whitfield"]), 1):
        centre = star if i % 17 == 9 else r.randint(1, len(names))
        candidates.append([f"{304 + i:04d}", name, r.choice("FM"), centre, day(r, "2004-09-01", "2007-08-31")])
    subjects = ["Physics", "Chemistry", "Geography", "Latin", "Statistics", "Economics", "Music", "Drama"]
    papers: list[Row] = [
        [f"{s[:2].upper()}{t}{n}", s, t, r.choice([60, 80, 100])] for s in subjects for t in "FH" for n in range(1, 5)
    ]
    results: list[Row] = []
    for i, candidate in enumerate(candidates):
        for paper in sorted(r.sample(range(len(papers)), 9 if i == 0 else r.randint(2, 5))):
            top = int(str(papers[paper][3]))
            low = round(top * (0.8 if i == 0 else 0.35))
            mark = None if i and r.random() < 0.06 else r.randint(low, top)
            results.append([candidate[0], papers[paper][0], r.choice(["2022S", "2022W", "2023S"]), mark])
    return {"centres": centres, "candidates": candidates, "papers": papers, "results": results}


def track_meets() -> Tables:
    r = Random(205)
    lands = ["Kenya", *[c for c in COUNTRIES if c != "Kenya"]]
    athletes: list[Row] = []
    for i, name in enumerate(people(r, 120, ["Jonas Whitfield"]), 1):
        land = "Norway" if i == 1 else weighted(r, lands, 1)[0]
        athletes.append([i, name, "M" if i == 1 else r.choice("WM"), land, r.randint(1984, 2004)])
    cups = ["Spring Open", "Night of Speed", "Harvest Games", "Coastal Cup", "Winter Classic"]
    meets: list[Row] = []
    for n in range(55):
        host = "Trenton" if n % 6 == 2 else r.choice(CITIES)
        indoor = 1 if n % 5 == 4 else r.choice([0, 0, 1])
        meets.append([n + 1, f"{cups[n % 5]} {n // 5 + 2013}", host, day(r, "2021-01-10", "2023-11-30"), indoor])
    events = {"100": ("100 meters", "s", 10.1, 12.4), "400": ("400 meters", "s", 45, 55.5),
              "1500": ("1500 meters", "s", 215, 262), "110H": ("110 meter hurdles", "s", 13.1, 16),
              "LJ": ("long jump", "m", 5.6, 8.3), "HJ": ("high jump", "m", 1.6, 2.3),
              "SP": ("shot put", "m", 12.5, 21.7), "JT": ("javelin throw", "m", 44, 86)}  # fmt: skip
    disciplines: list[Row] = [[code, spec[0], spec[1]] for code, spec in events.items()]
    performances: list[Row] = []
    for meet in range(1, 56):
        for code in sorted(r.sample(list(events), 2)):
            _, unit, low, high = events[code]
            field = r.sample(range(2, 121), 4)
            if (meet + len(performances)) % 7 == 3:
                field[r.randint(0, 2)] = 1
            values = sorted((round(r.uniform(low, high), 2) for _ in field), reverse=unit == "m")
            for rank, (athlete, value) in enumerate(zip(field, values, strict=True), 1):
                performances.append([len(performances) + 1, meet, code, athlete, value, rank])
    return {"athletes": athletes, "meets": meets, "disciplines": disciplines, "performances": performances}


def hoops_circuit() -> Tables:
    r = Random(206)
    animals = ["Lynx", "Falcons", "Badgers", "Pikes"]
    clubs: list[Row] = []
    for n in range(52):
        city = CITIES[n % 13]
        clubs.append([n + 1, f"{city} {animals[n // 13]}", city, r.randint(7, 92) * 100])
    players: list[Row] = []
    for i, name in enumerate(people(r, 200, ["Dmitri Volkov", "Marek Dvorak"]), 1):
        position = r.choice("GGFFC")
        height = {"G": 184, "F": 198, "C": 207}[position] + r.randint(-8, 9)
        players.append([i, name, r.randint(1, 52), position, height])
    games: list[Row] = []
    for i in range(1, 121):
        home, guest = r.sample(range(1, 53), 2)
        score = r.randint(61, 108)
        other = score + r.choice([-1, 1]) * r.randint(1, 29)
        games.append([i, home, guest, day(r, "2021-10-05", "2023-12-15"), score, other])
    box: list[Row] = []
    for game in range(1, 121):
        for player in sorted(([1] if game % 8 == 5 else []) + r.sample(range(2, 201), 4)):
            points = r.randint(24, 38) if player == 1 else r.randint(0, 27)
            box.append([game, player, points, r.randint(0, 13), r.randint(0, 12), r.randint(9, 40)])
    return {"clubs": clubs, "hoopers": players, "games": games, "box_scores": box}


def festival_films() -> Tables:
    r = Random(207)
    lands = ["Portugal", "Japan", *[c for c in COUNTRIES if c not in ("Portugal", "Japan")]]
    entries: list[Row] = []
    for i, title in enumerate(titles(r, 100, ["Saffron Skies", "Midnight Ferry"]), 1):
        section = "C" if i <= 2 else r.choice("CCPS")
        length = r.randint(4, 30) if section == "S" else r.randint(72, 168)
        entries.append([i, title, weighted(r, lands, 1)[0], length, section])
    prizes = ["Golden Reel", "Audience Prize", "Jury Prize", "Best Script", "Best Camera", "Best Sound", "Best Actor"]
    awards: list[Row] = []
    for year in range(2016, 2024):
        for prize in prizes:
            film = 1 if year in (2018, 2019) and prize.startswith("Best") else r.randint(2, 100)
            awards.append([len(awards) + 1, prize, film, year, r.randint(2, 40) * 500])
    halls = ["Grand Hall", "Studio 1", "Studio 2", "Open Air"]
    shows: list[Row] = []
    for i in range(1, 261):
        film = 2 if i <= 5 else r.randint(1, 100)
        shows.append([i, film, r.choice(halls), day(r, "2016-05-02", "2023-05-30"), r.randint(15, 420)])
    critics = people(r, 12)
    scores: list[Row] = []
    for film in range(1, 101):
        quality = r.uniform(3.5, 8.5)
        for critic in sorted(r.sample(critics, 3)):
            value = quality + r.uniform(-1.5, 1.5) - critics.index(critic) * 0.12
            scores.append([film, critic, round(min(10.0, max(0.0, value)), 1)])
    return {"entries": entries, "awards": awards, "shows": shows, "critic_scores": scores}


def chart_songs() -> Tables:
    r = Random(208)
    lands = ["Sweden", "Canada", *[c for c in COUNTRIES if c not in ("Sweden", "Canada")]]
    acts: list[Row] = [[i, b, weighted(r, lands, 1)[0], r.randint(2, 6)] for i, b in enumerate(BANDS, 1)]
    for n, singer in enumerate(people(r, 14)):
        acts.append([51 + n, singer, weighted(r, lands, 1)[0], 1])
    labels = ["Bluewater Music", "Cobalt Works", "Halcyon Sound", "Orchard Lane", "Harbor Records", "Umbra Electric"]
    singles: list[Row] = []
    for i, title in enumerate(titles(r, 110, ["Midnight Ferry", "Saffron Skies"]), 1):
        singles.append([i, title, r.randint(1, 64), r.choice(labels), r.randint(2017, 2023), int(r.random() < 0.22)])
    weeks: list[Row] = []
    monday = date(2022, 1, 3)
    for week in range(26):
        table = r.sample(range(3, 111), 16)
        if 6 <= week <= 13:
            table[0] = 1
        if 9 <= week <= 17:
            table[2 + week % 5] = 2
        streams = sorted(r.sample(range(400, 9000), 16), reverse=True)
        for position, (single, count) in enumerate(zip(table, streams, strict=True), 1):
            weeks.append([(monday + timedelta(weeks=week)).isoformat(), single, position, count])
    return {"acts": acts, "singles": singles, "chart_weeks": weeks}


def clinic_visits() -> Tables:
    r = Random(209)
    patients: list[Row] = []
    for i, name in enumerate(people(r, 140, ["Dmitri Volkov"]), 1):
        city, _, code = PLACES[2] if i % 7 == 3 else r.choice(PLACES)
        sex = 1 if i == 1 else r.choice([1, 2])
        patients.append([i, name, sex, day(r, "1938-01-01", "2012-12-31"), city, code])
    kinds = ["GP", "GP", "DER", "CAR", "ORT"]
    doctors: list[Row] = [[i, n, r.choice(kinds), r.randint(1994, 2022)] for i, n in enumerate(people(r, 50), 1)]
    visits: list[Row] = []
    for i in range(1, 341):
        patient = 1 if i % 38 == 7 else r.randint(2, 140)
        missed = 1 if i in (45, 121) else 0 if patient == 1 else int(r.random() < 0.12)
        visits.append([i, patient, r.randint(1, 50), day(r, "2020-02-01", "2023-12-20"), money(r, 35, 260), missed])
    drugs = ["Amoxine", "Cardolan", "Dermacalm", "Ibuvex", "Lorapine", "Metasol", "Paincare", "Vitadrop"]
    prescriptions: list[Row] = []
    for i in range(1, 281):
        drug = weighted(r, drugs, 1)[0]
        prescriptions.append([i, r.randint(1, 340), drug, r.choice([5, 7, 10, 14, 28, 30, 60, 90])])
    return {"patients": patients, "doctors": doctors, "visits": visits, "prescriptions": prescriptions}


DATABASES: dict[str, Callable[[], Tables]] = {
    "metro_grocers": metro_grocers,
    "wholesale_hub": wholesale_hub,
    "state_academies": state_academies,
    "exam_board": exam_board,
    "track_meets": track_meets,
    "hoops_circuit": hoops_circuit,
    "festival_films": festival_films,
    "chart_songs": chart_songs,
    "clinic_visits": clinic_visits,
}
