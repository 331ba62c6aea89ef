CREATE TABLE artists (
    artist_id INTEGER PRIMARY KEY,
    artist_name TEXT NOT NULL,
    home_city TEXT,
    formed_year INTEGER,
    genre TEXT
);
CREATE TABLE albums (
    album_id INTEGER PRIMARY KEY,
    album_title TEXT NOT NULL,
    artist_id INTEGER NOT NULL REFERENCES artists(artist_id),
    release_year INTEGER,
    copies_sold INTEGER,
    list_price REAL
);
CREATE TABLE tracks (
    track_id INTEGER PRIMARY KEY,
    album_id INTEGER NOT NULL REFERENCES albums(album_id),
    position INTEGER,
    track_title TEXT NOT NULL,
    seconds INTEGER
);
