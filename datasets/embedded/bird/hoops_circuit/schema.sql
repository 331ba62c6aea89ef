CREATE TABLE clubs (
    club_id INTEGER PRIMARY KEY,
    club_nm TEXT NOT NULL,
    city TEXT,
    arena_cap INTEGER
);
CREATE TABLE hoopers (
    plr_id INTEGER PRIMARY KEY,
    plr_nm TEXT NOT NULL,
    club_id INTEGER NOT NULL REFERENCES clubs(club_id),
    pos TEXT,
    hgt_cm INTEGER
);
CREATE TABLE games (
    game_id INTEGER PRIMARY KEY,
    home_id INTEGER NOT NULL REFERENCES clubs(club_id),
    guest_id INTEGER NOT NULL REFERENCES clubs(club_id),
    game_dt DATE,
    home_pts INTEGER,
    guest_pts INTEGER
);
CREATE TABLE box_scores (
    game_id INTEGER NOT NULL REFERENCES games(game_id),
    plr_id INTEGER NOT NULL REFERENCES hoopers(plr_id),
    pts INTEGER,
    reb INTEGER,
    ast INTEGER,
    mins INTEGER,
    PRIMARY KEY (game_id, plr_id)
);
