CREATE TABLE teams (
    team_id INTEGER PRIMARY KEY,
    team_name TEXT NOT NULL,
    based_in TEXT,
    coach TEXT,
    founded_year INTEGER
);
CREATE TABLE players (
    player_id INTEGER PRIMARY KEY,
    player_name TEXT NOT NULL,
    team_id INTEGER NOT NULL REFERENCES teams(team_id),
    shirt_number TEXT,
    playing_position TEXT,
    birth_year INTEGER
);
CREATE TABLE matches (
    match_id INTEGER PRIMARY KEY,
    home_team INTEGER NOT NULL REFERENCES teams(team_id),
    away_team INTEGER NOT NULL REFERENCES teams(team_id),
    match_day DATE,
    spectators INTEGER
);
CREATE TABLE goals (
    goal_id INTEGER PRIMARY KEY,
    match_id INTEGER NOT NULL REFERENCES matches(match_id),
    player_id INTEGER NOT NULL REFERENCES players(player_id),
    minute INTEGER
);
