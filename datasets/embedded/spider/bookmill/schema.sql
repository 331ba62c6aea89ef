CREATE TABLE authors (
    author_id INTEGER PRIMARY KEY,
    author_name TEXT NOT NULL,
    country TEXT,
    first_published INTEGER
);
CREATE TABLE books (
    book_id INTEGER PRIMARY KEY,
    book_title TEXT NOT NULL,
    author_id INTEGER NOT NULL REFERENCES authors(author_id),
    publisher TEXT,
    pages INTEGER,
    shop_price REAL
);
CREATE TABLE readers (
    reader_id INTEGER PRIMARY KEY,
    reader_name TEXT NOT NULL,
    home_town TEXT,
    card_since INTEGER
);
CREATE TABLE book_sales (
    sale_no INTEGER PRIMARY KEY,
    book_id INTEGER NOT NULL REFERENCES books(book_id),
    reader_id INTEGER NOT NULL REFERENCES readers(reader_id),
    copies INTEGER,
    sold_on DATE
);
