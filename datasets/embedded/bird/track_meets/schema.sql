CREATE TABLE athletes (
    ath_id INTEGER PRIMARY KEY,
    ath_nm TEXT NOT NULL,
    gndr TEXT,
    ctry TEXT,
    birth_yr INTEGER
);
CREATE TABLE meets (
    meet_id INTEGER PRIMARY KEY,
    meet_nm TEXT NOT NULL,
    host TEXT,
    start_dt DATE,
    indoor INTEGER
);
CREATE TABLE disciplines (
    disc_cd TEXT PRIMARY KEY,
    disc_nm TEXT NOT NULL,
    unit TEXT
);
CREATE TABLE performances (
    perf_id INTEGER PRIMARY KEY,
    meet_id INTEGER NOT NULL REFERENCES meets(meet_id),
    disc_cd TEXT NOT NULL REFERENCES disciplines(disc_cd),
    ath_id INTEGER NOT NULL REFERENCES athletes(ath_id),
    val REAL,
    rnk INTEGER
);
