CREATE TABLE reefs (
    reef_tag TEXT PRIMARY KEY,
    reef_name TEXT NOT NULL,
    country TEXT,
    geo JSONB
);
CREATE TABLE dives (
    dive_id BIGINT PRIMARY KEY,
    reef_tag TEXT NOT NULL REFERENCES reefs(reef_tag),
    lead_scientist TEXT NOT NULL,
    dive_date DATE,
    conditions JSONB
);
CREATE TABLE sightings (
    sight_id BIGINT PRIMARY KEY,
    dive_id BIGINT NOT NULL REFERENCES dives(dive_id),
    species TEXT NOT NULL,
    tally INTEGER,
    detail JSONB
);
