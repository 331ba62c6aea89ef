CREATE TABLE plants (
    plant_code TEXT PRIMARY KEY,
    plant_name TEXT NOT NULL,
    run_by TEXT NOT NULL,
    river TEXT,
    profile JSONB
);
CREATE TABLE generators (
    gen_code TEXT PRIMARY KEY,
    plant_code TEXT NOT NULL REFERENCES plants(plant_code),
    manufacturer TEXT NOT NULL,
    capacity_kw INTEGER NOT NULL,
    commissioned DATE
);
CREATE TABLE inspections (
    insp_no BIGINT PRIMARY KEY,
    gen_code TEXT NOT NULL REFERENCES generators(gen_code),
    inspector TEXT,
    insp_day DATE,
    findings JSONB
);
CREATE TABLE monthly_energy (
    plant_code TEXT NOT NULL REFERENCES plants(plant_code),
    month DATE NOT NULL,
    energy JSONB,
    PRIMARY KEY (plant_code, month)
);
