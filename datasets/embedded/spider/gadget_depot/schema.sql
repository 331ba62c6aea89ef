CREATE TABLE clients (
    client_no INTEGER PRIMARY KEY,
    client_name TEXT NOT NULL,
    town TEXT,
    postcode TEXT,
    newsletter TEXT
);
CREATE TABLE staff (
    staff_no INTEGER PRIMARY KEY,
    staff_name TEXT NOT NULL,
    job_title TEXT,
    birth_date DATE,
    monthly_pay REAL
);
CREATE TABLE products (
    product_no INTEGER PRIMARY KEY,
    product_name TEXT NOT NULL,
    maker TEXT,
    product_group TEXT,
    price REAL
);
CREATE TABLE orders (
    order_no INTEGER PRIMARY KEY,
    client_no INTEGER NOT NULL REFERENCES clients(client_no),
    handled_by INTEGER REFERENCES staff(staff_no),
    ordered_on DATE
);
CREATE TABLE order_lines (
    order_no INTEGER NOT NULL REFERENCES orders(order_no),
    product_no INTEGER NOT NULL REFERENCES products(product_no),
    pieces INTEGER,
    PRIMARY KEY (order_no, product_no)
);
