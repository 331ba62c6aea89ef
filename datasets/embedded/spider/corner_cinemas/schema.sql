CREATE TABLE cinemas (
    cinema_id INTEGER PRIMARY KEY,
    cinema_name TEXT NOT NULL,
    city TEXT,
    opened INTEGER,
    screens INTEGER
);
CREATE TABLE movies (
    movie_id INTEGER PRIMARY KEY,
    movie_title TEXT NOT NULL,
    genre TEXT,
    age_limit INTEGER
);
CREATE TABLE screenings (
    screening_id INTEGER PRIMARY KEY,
    cinema_id INTEGER NOT NULL REFERENCES cinemas(cinema_id),
    movie_id INTEGER NOT NULL REFERENCES movies(movie_id),
    show_date DATE,
    ticket_price REAL,
    tickets_sold INTEGER
);
