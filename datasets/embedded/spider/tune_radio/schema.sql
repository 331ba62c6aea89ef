CREATE TABLE presenters (
    presenter_id INTEGER PRIMARY KEY,
    full_name TEXT NOT NULL,
    hometown TEXT,
    hired_year INTEGER,
    birth_year INTEGER
);
CREATE TABLE programs (
    program_id INTEGER PRIMARY KEY,
    program_name TEXT NOT NULL,
    presenter_id INTEGER NOT NULL REFERENCES presenters(presenter_id),
    weekday TEXT,
    minutes INTEGER
);
CREATE TABLE songs (
    song_id INTEGER PRIMARY KEY,
    song_title TEXT NOT NULL,
    band TEXT,
    song_language TEXT
);
CREATE TABLE airplays (
    airplay_id INTEGER PRIMARY KEY,
    song_id INTEGER NOT NULL REFERENCES songs(song_id),
    program_id INTEGER NOT NULL REFERENCES programs(program_id),
    played_on DATE
);
