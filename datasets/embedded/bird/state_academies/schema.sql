CREATE TABLE academies (
    acad_id INTEGER PRIMARY KEY,
    acad_nm TEXT NOT NULL,
    cnty TEXT,
    postal TEXT,
    lvl TEXT,
    charter INTEGER
);
CREATE TABLE enrolment (
    acad_id INTEGER NOT NULL REFERENCES academies(acad_id),
    yr INTEGER,
    total_cnt INTEGER,
    frl_cnt INTEGER,
    PRIMARY KEY (acad_id, yr)
);
CREATE TABLE budgets (
    acad_id INTEGER NOT NULL REFERENCES academies(acad_id),
    yr INTEGER,
    spend_k REAL,
    fte REAL,
    PRIMARY KEY (acad_id, yr)
);
