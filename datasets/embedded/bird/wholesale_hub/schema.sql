CREATE TABLE depots (
    depot_no INTEGER PRIMARY KEY,
    depot_nm TEXT NOT NULL,
    depot_city TEXT,
    docks INTEGER
);
CREATE TABLE articles (
    art_no TEXT PRIMARY KEY,
    art_desc TEXT NOT NULL,
    brand_nm TEXT,
    grp TEXT,
    hazard INTEGER
);
CREATE TABLE buyers (
    buyer_no INTEGER PRIMARY KEY,
    buyer_nm TEXT NOT NULL,
    town TEXT,
    zip TEXT,
    seg TEXT
);
CREATE TABLE shipments (
    ship_no INTEGER PRIMARY KEY,
    depot_no INTEGER NOT NULL REFERENCES depots(depot_no),
    buyer_no INTEGER NOT NULL REFERENCES buyers(buyer_no),
    ship_dt DATE,
    stat TEXT
);
CREATE TABLE shipment_lines (
    ship_no INTEGER NOT NULL REFERENCES shipments(ship_no),
    art_no TEXT NOT NULL REFERENCES articles(art_no),
    cartons INTEGER,
    carton_prc REAL,
    PRIMARY KEY (ship_no, art_no)
);
