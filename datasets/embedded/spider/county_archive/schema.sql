CREATE TABLE employees (
    employee_id INTEGER PRIMARY KEY,
    employee_name TEXT NOT NULL,
    department TEXT,
    birthday DATE,
    yearly_pay INTEGER
);
CREATE TABLE holdings (
    holding_id INTEGER PRIMARY KEY,
    holding_name TEXT NOT NULL,
    keeper_id INTEGER NOT NULL REFERENCES employees(employee_id),
    shelf_meters REAL
);
CREATE TABLE documents (
    signature TEXT PRIMARY KEY,
    holding_id INTEGER NOT NULL REFERENCES holdings(holding_id),
    document_type TEXT,
    written_year INTEGER,
    place_written TEXT
);
CREATE TABLE visits (
    visit_id INTEGER PRIMARY KEY,
    visitor TEXT,
    visitor_city TEXT,
    signature TEXT NOT NULL REFERENCES documents(signature),
    visit_date DATE
);
