CREATE TABLE customers (
    customer_id INTEGER PRIMARY KEY,
    customer_name TEXT NOT NULL,
    city TEXT,
    zip_code TEXT
);
CREATE TABLE suppliers (
    supplier_id INTEGER PRIMARY KEY,
    supplier_name TEXT NOT NULL,
    contact_person TEXT,
    supplier_city TEXT
);
CREATE TABLE items (
    item_id INTEGER PRIMARY KEY,
    item_name TEXT NOT NULL,
    category TEXT,
    supplier_id INTEGER NOT NULL REFERENCES suppliers(supplier_id),
    unit_price REAL,
    stock INTEGER
);
CREATE TABLE purchases (
    purchase_id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customers(customer_id),
    item_id INTEGER NOT NULL REFERENCES items(item_id),
    quantity INTEGER,
    purchase_date DATE
);
