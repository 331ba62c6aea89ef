CREATE TABLE couriers (
    courier_id BIGINT PRIMARY KEY,
    courier_name TEXT NOT NULL,
    contract JSONB
);
CREATE TABLE routes (
    route_no TEXT PRIMARY KEY,
    courier_id BIGINT NOT NULL REFERENCES couriers(courier_id),
    served_city TEXT,
    length_km NUMERIC(6,1)
);
CREATE TABLE parcels (
    parcel_id BIGINT PRIMARY KEY,
    route_no TEXT NOT NULL REFERENCES routes(route_no),
    dest_zip TEXT,
    weight_kg NUMERIC(6,2),
    declared_usd NUMERIC(8,2),
    handling JSONB
);
CREATE TABLE scans (
    scan_id BIGINT PRIMARY KEY,
    parcel_id BIGINT NOT NULL REFERENCES parcels(parcel_id),
    scanned_at TIMESTAMPTZ,
    event JSONB
);
