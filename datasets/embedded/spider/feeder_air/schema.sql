CREATE TABLE pilots (
    pilot_id INTEGER PRIMARY KEY,
    pilot_name TEXT NOT NULL,
    base_city TEXT,
    flying_hours INTEGER,
    born_on DATE
);
CREATE TABLE aircraft (
    tail_number TEXT PRIMARY KEY,
    model TEXT,
    manufacturer TEXT,
    seat_count INTEGER
);
CREATE TABLE flights (
    flight_id INTEGER PRIMARY KEY,
    origin TEXT,
    destination TEXT,
    flight_date DATE,
    pilot_id INTEGER NOT NULL REFERENCES pilots(pilot_id),
    tail_number TEXT NOT NULL REFERENCES aircraft(tail_number)
);
CREATE TABLE bookings (
    booking_id INTEGER PRIMARY KEY,
    flight_id INTEGER NOT NULL REFERENCES flights(flight_id),
    passenger TEXT,
    fare REAL
);
