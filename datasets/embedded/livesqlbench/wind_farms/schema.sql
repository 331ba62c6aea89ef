CREATE TABLE farms (
    farm_ref TEXT PRIMARY KEY,
    farm_name TEXT NOT NULL,
    operator_name TEXT NOT NULL,
    region TEXT,
    site_specs JSONB
);
CREATE TABLE turbines (
    turb_ref TEXT PRIMARY KEY,
    farm_ref TEXT NOT NULL REFERENCES farms(farm_ref),
    maker TEXT NOT NULL,
    rated_kw INTEGER NOT NULL,
    installed_on DATE
);
CREATE TABLE output_logs (
    log_id BIGINT PRIMARY KEY,
    turb_ref TEXT NOT NULL REFERENCES turbines(turb_ref),
    log_month DATE NOT NULL,
    readings JSONB
);
CREATE TABLE repairs (
    repair_id BIGINT PRIMARY KEY,
    turb_ref TEXT NOT NULL REFERENCES turbines(turb_ref),
    technician TEXT,
    done_on DATE,
    bill JSONB
);
