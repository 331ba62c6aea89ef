CREATE TABLE hubs (
    hub_key TEXT PRIMARY KEY,
    hub_name TEXT NOT NULL,
    town TEXT,
    operated_by TEXT NOT NULL,
    setup JSONB
);
CREATE TABLE vehicles (
    plate TEXT PRIMARY KEY,
    make TEXT,
    pack JSONB
);
CREATE TABLE drivers (
    driver_key BIGINT PRIMARY KEY,
    driver_name TEXT NOT NULL,
    hired_on DATE
);
CREATE TABLE charge_sessions (
    session_key BIGINT PRIMARY KEY,
    hub_key TEXT NOT NULL REFERENCES hubs(hub_key),
    plate TEXT NOT NULL REFERENCES vehicles(plate),
    driver_key BIGINT NOT NULL REFERENCES drivers(driver_key),
    started TIMESTAMPTZ,
    meter JSONB
);
