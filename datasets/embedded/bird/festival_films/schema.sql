CREATE TABLE entries (
    entry_id INTEGER PRIMARY KEY,
    film_ttl TEXT NOT NULL,
    ctry TEXT,
    len_min INTEGER,
    sect TEXT
);
CREATE TABLE awards (
    award_id INTEGER PRIMARY KEY,
    award_nm TEXT NOT NULL,
    entry_id INTEGER NOT NULL REFERENCES entries(entry_id),
    fest_yr INTEGER,
    prize_usd INTEGER
);
CREATE TABLE shows (
    show_id INTEGER PRIMARY KEY,
    entry_id INTEGER NOT NULL REFERENCES entries(entry_id),
    hall TEXT,
    show_dt DATE,
    tix INTEGER
);
CREATE TABLE critic_scores (
    entry_id INTEGER NOT NULL REFERENCES entries(entry_id),
    critic TEXT,
    pts REAL,
    PRIMARY KEY (entry_id, critic)
);
