CREATE TABLE directors (
    director_id INTEGER PRIMARY KEY,
    director_name TEXT NOT NULL,
    nationality TEXT,
    born INTEGER
);
CREATE TABLE films (
    film_id INTEGER PRIMARY KEY,
    film_title TEXT NOT NULL,
    director_id INTEGER NOT NULL REFERENCES directors(director_id),
    year INTEGER,
    budget REAL,
    runtime INTEGER
);
CREATE TABLE actors (
    actor_id INTEGER PRIMARY KEY,
    actor_name TEXT NOT NULL,
    gender TEXT,
    debut_year INTEGER
);
CREATE TABLE castings (
    film_id INTEGER NOT NULL REFERENCES films(film_id),
    actor_id INTEGER NOT NULL REFERENCES actors(actor_id),
    role_type TEXT,
    salary REAL,
    PRIMARY KEY (film_id, actor_id)
);
