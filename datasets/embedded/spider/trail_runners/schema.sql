CREATE TABLE runners (
    bib_code TEXT PRIMARY KEY,
    runner_name TEXT NOT NULL,
    home_town TEXT,
    member_since INTEGER,
    age_class TEXT
);
CREATE TABLE races (
    race_id INTEGER PRIMARY KEY,
    race_name TEXT NOT NULL,
    host_city TEXT,
    race_day DATE,
    distance_km REAL,
    entry_fee REAL
);
CREATE TABLE finishes (
    race_id INTEGER NOT NULL REFERENCES races(race_id),
    bib_code TEXT NOT NULL REFERENCES runners(bib_code),
    finish_minutes INTEGER,
    place INTEGER,
    PRIMARY KEY (race_id, bib_code)
);
