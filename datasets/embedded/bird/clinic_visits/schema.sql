CREATE TABLE patients (
    pat_id INTEGER PRIMARY KEY,
    pat_nm TEXT NOT NULL,
    sex_cd INTEGER,
    dob DATE,
    home_city TEXT,
    postal TEXT
);
CREATE TABLE doctors (
    doc_id INTEGER PRIMARY KEY,
    doc_nm TEXT NOT NULL,
    spec TEXT,
    since_yr INTEGER
);
CREATE TABLE visits (
    vis_id INTEGER PRIMARY KEY,
    pat_id INTEGER NOT NULL REFERENCES patients(pat_id),
    doc_id INTEGER NOT NULL REFERENCES doctors(doc_id),
    vis_dt DATE,
    fee REAL,
    no_show INTEGER
);
CREATE TABLE prescriptions (
    rx_id INTEGER PRIMARY KEY,
    vis_id INTEGER NOT NULL REFERENCES visits(vis_id),
    drug TEXT,
    days INTEGER
);
