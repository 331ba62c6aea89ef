CREATE TABLE venues (
    venue_id INTEGER PRIMARY KEY,
    venue_name TEXT NOT NULL,
    city TEXT,
    seats INTEGER
);
CREATE TABLE performers (
    performer_id INTEGER PRIMARY KEY,
    stage_name TEXT NOT NULL,
    country TEXT,
    fee REAL
);
CREATE TABLE gigs (
    gig_id INTEGER PRIMARY KEY,
    venue_id INTEGER NOT NULL REFERENCES venues(venue_id),
    performer_id INTEGER NOT NULL REFERENCES performers(performer_id),
    gig_date DATE,
    sold_out TEXT
);
CREATE TABLE ticket_sales (
    sale_id INTEGER PRIMARY KEY,
    gig_id INTEGER NOT NULL REFERENCES gigs(gig_id),
    price REAL,
    quantity INTEGER
);
