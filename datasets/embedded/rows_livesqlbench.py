"""Rows of the LiveSQLBench-style databases, from fixed seeds.

What belongs here: one function a database, giving every table's rows in the column order of its `schema.sql`; JSONB
columns are compact JSON text. What does not: the shared value pools (`pools.py`) and file writing (`generate.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from pools import CITIES, COUNTRIES, PLACES, Row, Tables, day, money, people, weighted

MAKERS = ["Norvik Dynamics", "Westbrook Company", "Granite Peak", "Cobalt Works", "Halcyon Systems"]
OPERATORS = ["Kestrel Power", "Umbra Electric", "Summit Lighting", "Redfern Partners", "Bluewater Supply",
             "Vantage Wares"]  # fmt: skip


def pack(**fields: object) -> str:
    """One JSONB value as compact JSON text."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def months(first_year: int, count: int) -> list[str]:
    """`count` first days of months, from January of `first_year`."""
    return [f"{first_year + n // 12}-{n % 12 + 1:02d}-01" for n in range(count)]


def wind_farms() -> Tables:
    r = Random(301)
    first = ["Gull", "Heather", "Stone", "Lark", "Beacon", "Crow", "Fox", "Juniper", "Marsh", "Windmill"]
    second = ["Ridge", "Moor", "Down", "Hill", "Fen"]
    farms: list[Row] = []
    for n, name in enumerate([f"{a} {b}" for b in second for a in first], 1):
        operator = OPERATORS[1] if n % 4 == 1 else r.choice([o for o in OPERATORS if o != OPERATORS[1]])
        specs = pack(
            area_ha=r.randint(60, 900), mean_wind_ms=round(r.uniform(5.4, 9.2), 1), grid_kv=r.choice([33, 110])
        )
        farms.append([f"WF{n:02d}", name, operator, r.choice(["North", "East", "South", "West"]), specs])
    turbines: list[Row] = []
    for n in range(1, 121):
        kw = r.choice([1500, 2000, 2300, 3000, 3200, 4200])
        turbines.append(
            [f"T{n:03d}", f"WF{r.randint(1, 50):02d}", r.choice(MAKERS), kw, day(r, "2003-03-01", "2021-11-30")]
        )
    logs: list[Row] = []
    for turbine in turbines:
        for month in r.sample(months(2022, 24), 3):
            low, high = (4, 40) if turbine[2] == MAKERS[0] else (25, 140)
            hours = round(r.uniform(low, high), 1)
            mwh = round(int(str(turbine[3])) * r.uniform(0.12, 0.31), 1)
            gust = round(r.triangular(14, 33, 21), 1)
            logs.append([len(logs) + 1, turbine[0], month, pack(mwh=mwh, downtime_h=hours, gust_ms=gust)])
    crew = people(r, 14, ["Oskar Brandt"])
    repairs: list[Row] = []
    for i in range(1, 151):
        who = crew[0] if i % 7 == 2 else r.choice(crew[1:])
        cause = r.choice(["bearing", "blade", "gearbox", "lightning", "software"])
        bill = pack(parts_usd=money(r, 90, 9800), labor_usd=money(r, 120, 3900), cause=cause)
        repairs.append([i, r.choice(turbines)[0], who, day(r, "2022-01-05", "2023-12-20"), bill])
    return {"farms": farms, "turbines": turbines, "output_logs": logs, "repairs": repairs}


def hydro_plants() -> Tables:
    r = Random(302)
    first = ["Otter", "Silver", "Upper", "Lower", "Black", "Cedar", "Eagle", "Mill", "Salmon", "Thunder"]
    second = ["Falls", "Weir", "Gorge", "Dam", "Narrows"]
    rivers = ["Alder", "Brisk", "Corrin", "Dunmore", "Esk Water", "Fallow"]
    plants: list[Row] = []
    for n, name in enumerate([f"{a} {b}" for b in second for a in first], 1):
        operator = OPERATORS[0] if n % 4 == 2 else r.choice(OPERATORS[1:])
        profile = pack(
            head_m=round(r.uniform(6, 420), 1), reservoir_mcm=round(r.uniform(0.3, 60), 1), built=r.randint(1921, 2008)
        )
        plants.append([f"HP-{n:02d}", name, operator, r.choice(rivers), profile])
    generators: list[Row] = []
    for n in range(1, 111):
        plant, maker = f"HP-{r.randint(1, 50):02d}", r.choice(MAKERS)
        generators.append([f"G{n:03d}", plant, maker, r.randint(4, 260) * 100, day(r, "1961-01-01", "2019-12-31")])
    crew = people(r, 12, ["Oskar Brandt", "Imani Baptiste"])
    inspections: list[Row] = []
    for i in range(1, 211):
        vibration = round(r.triangular(0.8, 7.5, 2.6), 1)
        verdict = "fail" if vibration > 6 else r.choice(["pass", "pass", "watch", "fail"])
        found = pack(vibration=vibration, leakage=round(r.uniform(0, 4), 1), verdict=verdict)
        inspections.append([i, r.choice(generators)[0], r.choice(crew), day(r, "2021-01-05", "2023-12-15"), found])
    energy: list[Row] = []
    for plant in plants:
        for month in months(2023, 6):
            gross = round(r.uniform(300, 9400), 1)
            energy.append(
                [plant[0], month, pack(gross_mwh=gross, own_use_mwh=round(gross * r.uniform(0.005, 0.06), 1))]
            )
    return {"plants": plants, "generators": generators, "inspections": inspections, "monthly_energy": energy}


def fleet_charging() -> Tables:
    r = Random(303)
    hubs: list[Row] = []
    for n in range(54):
        town = CITIES[n % 12]
        operator = OPERATORS[2] if n % 5 == 3 else r.choice([o for o in OPERATORS if o != OPERATORS[2]])
        setup = pack(plugs=r.randint(2, 24), max_kw=r.choice([22, 50, 75, 150, 300]), roof_solar=r.random() < 0.4)
        hubs.append([f"H{n + 1:02d}", f"{town} Yard {n // 12 + 1}", town, operator, setup])
    vehicles: list[Row] = []
    makes = ["Cobalt Works", "Granite Peak", "Ironbark Group", "Lodestar Motors", "Vantage Wares"]
    for n in range(90):
        cells = pack(kwh=r.choice([55, 75, 90, 110]), age_y=r.randint(0, 11), chemistry=r.choice(["LFP", "NMC", None]))
        vehicles.append([f"EV-{101 + n:04d}", r.choice(makes), cells])
    drivers: list[Row] = [
        [i, n, day(r, "2012-01-01", "2023-06-30")] for i, n in enumerate(people(r, 60, ["Leila Haddad"]), 1)
    ]
    hartford = [hub[0] for hub in hubs if hub[2] == "Hartford"]
    sessions: list[Row] = []
    for i in range(1, 361):
        hub = r.choice(hartford) if i % 9 == 4 else r.choice(hubs)[0]
        driver = 1 if i % 30 == 11 else r.randint(2, 60)
        start = f"{day(r, '2023-01-02', '2023-12-29')} {r.randint(5, 22):02d}:{r.randint(0, 59):02d}:00+00"
        fault = r.choice([None, None, None, None, "E07", "E12", "E31"])
        meter = pack(kwh=round(r.uniform(6, 88), 1), minutes=r.randint(15, 240), fault=fault)
        sessions.append([i, hub, r.choice(vehicles)[0], driver, start, meter])
    return {"hubs": hubs, "vehicles": vehicles, "drivers": drivers, "charge_sessions": sessions}


def parcel_routes() -> Tables:
    r = Random(304)
    kinds = ["full time", "part time", "seasonal"]
    couriers: list[Row] = []
    for i, name in enumerate(people(r, 55, ["Leila Haddad", "Callum Reyes"]), 1):
        couriers.append([i, name, pack(kind=r.choice(kinds), hourly_usd=round(r.uniform(15, 29), 1))])
    routes: list[Row] = []
    for n in range(1, 81):
        courier = 1 if n % 16 == 5 else r.randint(2, 55)
        routes.append([f"{n:03d}", courier, r.choice(CITIES[:10]), round(r.uniform(8, 140), 1)])
    own = [route[0] for route in routes if route[1] == 1]
    parcels: list[Row] = []
    for i in range(1, 321):
        route = r.choice(own) if i % 12 == 7 else r.choice(routes)[0]
        care = pack(
            fragile=r.random() < 0.35,
            attempts=r.choice([1, 1, 1, 2, 2, 3, 4]),
            signature=r.choice(["addressee", "addressee", "neighbor", "none"]),
        )
        code = "02134" if i % 10 == 3 else r.choice(PLACES)[2]
        parcels.append([i, route, code, money(r, 0.2, 28), money(r, 5, 900), care])
    scans: list[Row] = []
    for i in range(1, 401):
        at = f"{day(r, '2023-01-02', '2023-12-29')} {r.randint(4, 21):02d}:{r.randint(0, 59):02d}:00+00"
        event = pack(place=r.choice(["depot", "van", "door"]), temp_c=round(r.triangular(-6, 34, 14), 1))
        scans.append([i, r.randint(1, 320), at, event])
    return {"couriers": couriers, "routes": routes, "parcels": parcels, "scans": scans}


def reef_surveys() -> Tables:
    r = Random(305)
    first = ["Lantern", "Coral", "Mango", "Turtle", "Compass", "Pelican", "Moon", "Anchor", "Parrot", "Driftwood"]
    second = ["Shoal", "Bank", "Gardens", "Point", "Ledge"]
    lands = ["Brazil", "Mexico", "Kenya", "India", "Japan", "Portugal"]
    reefs: list[Row] = []
    for n, name in enumerate([f"{a} {b}" for b in second for a in first], 1):
        zone = r.choice(["fringe", "barrier", "atoll"])
        geo = pack(depth_m=round(r.uniform(5, 48), 1), zone=zone, protected=r.random() < 0.5)
        reefs.append([f"R{n:02d}", name, r.choice(lands), geo])
    team = people(r, 16, ["Beatriz Moura", "Priya Raman"])
    dives: list[Row] = []
    for i in range(1, 181):
        who = team[0] if i % 6 == 4 else r.choice(team[1:])
        water = pack(temp_c=round(r.uniform(22, 31.4), 1), visibility_m=r.randint(4, 34))
        dives.append([i, f"R{r.randint(1, 50):02d}", who, day(r, "2020-03-01", "2023-11-30"), water])
    kinds = ["hawksbill turtle", "green turtle", "reef shark", "parrotfish", "clownfish", "giant clam", "moray eel",
             "manta ray", "lionfish", "sea cucumber", "octopus", "butterflyfish"]  # fmt: skip
    sightings: list[Row] = []
    for i in range(1, 381):
        size = None if r.random() < 0.1 else r.randint(5, 240)
        tally = r.randint(1, 40)
        detail = pack(size_cm=size, juveniles=r.randint(0, tally // 2))
        sightings.append([i, r.randint(1, 180), weighted(r, kinds, 1)[0], tally, detail])
    return {"reefs": reefs, "dives": dives, "sightings": sightings}


def forest_plots() -> Tables:
    r = Random(306)
    first = ["Upper", "Lower", "Far", "Near", "Old", "New", "North", "South", "Hidden", "Long"]
    second = ["Clearing", "Slope", "Hollow", "Stand", "Edge"]
    lands = ["Brazil", *[c for c in COUNTRIES[:9] if c != "Brazil"]]
    plots: list[Row] = []
    for n, name in enumerate([f"{a} {b}" for b in second for a in first], 1):
        land = "Brazil" if n % 6 == 3 else r.choice(lands[1:])
        soil = r.choice(["clay", "loam", "sand", "peat"])
        stand = pack(area_ha=round(r.uniform(0.5, 6), 1), slope_deg=r.randint(0, 35), soil=soil)
        plots.append([f"P{n:02d}", name, land, stand])
    kinds = ["silver fir", "beech", "oak", "Scots pine", "larch", "birch", "ash", "maple", "hornbeam"]
    trees: list[Row] = []
    for i in range(1, 391):
        height = None if r.random() < 0.08 else round(r.uniform(3, 41), 1)
        size = pack(dbh_cm=round(r.triangular(8, 112, 34), 1), height_m=height, hollow=r.random() < 0.15)
        trees.append([i, f"P{r.randint(1, 50):02d}", weighted(r, kinds, 1)[0], size])
    trees[149][3] = pack(dbh_cm=96.5, height_m=44.8, hollow=False)
    team = people(r, 15, ["Jonas Whitfield", "Beatriz Moura"])
    visits: list[Row] = []
    for i in range(1, 191):
        who = team[0] if i % 7 == 5 else r.choice(team[1:])
        notes = pack(deaths=r.randint(0, 6), browsing_pct=round(r.uniform(2, 78), 1))
        visits.append([i, f"P{r.randint(1, 50):02d}", who, day(r, "2019-04-01", "2023-10-31"), notes])
    return {"plots": plots, "trees": trees, "field_visits": visits}


DATABASES: dict[str, Callable[[], Tables]] = {
    "wind_farms": wind_farms,
    "hydro_plants": hydro_plants,
    "fleet_charging": fleet_charging,
    "parcel_routes": parcel_routes,
    "reef_surveys": reef_surveys,
    "forest_plots": forest_plots,
}
