CREATE TABLE club_members (
    member_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    residence TEXT,
    year_joined INTEGER,
    date_of_birth DATE
);
CREATE TABLE boats (
    boat_id INTEGER PRIMARY KEY,
    boat_name TEXT NOT NULL,
    boat_class TEXT,
    builder TEXT,
    bought_for REAL
);
CREATE TABLE outings (
    outing_id INTEGER PRIMARY KEY,
    boat_id INTEGER NOT NULL REFERENCES boats(boat_id),
    steered_by INTEGER NOT NULL REFERENCES club_members(member_id),
    outing_date DATE,
    kilometers REAL
);
