CREATE TABLE stores (
    store_id INTEGER PRIMARY KEY,
    store_nm TEXT NOT NULL,
    city TEXT,
    st TEXT,
    sqft INTEGER,
    opened_on DATE
);
CREATE TABLE goods (
    sku TEXT PRIMARY KEY,
    descr TEXT NOT NULL,
    brand TEXT,
    cat TEXT,
    unit_prc REAL
);
CREATE TABLE receipts (
    rcpt_id INTEGER PRIMARY KEY,
    store_id INTEGER NOT NULL REFERENCES stores(store_id),
    sold_on DATE,
    pay_mth TEXT
);
CREATE TABLE receipt_items (
    rcpt_id INTEGER NOT NULL REFERENCES receipts(rcpt_id),
    sku TEXT NOT NULL REFERENCES goods(sku),
    qty INTEGER,
    disc_pct INTEGER,
    PRIMARY KEY (rcpt_id, sku)
);
