CREATE TABLE members (
    member_no INTEGER PRIMARY KEY,
    member_name TEXT NOT NULL,
    town TEXT,
    joined DATE,
    birth_year INTEGER
);
CREATE TABLE collection (
    item_no INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    format TEXT,
    made_in TEXT,
    shot_year INTEGER
);
CREATE TABLE loans (
    loan_no INTEGER PRIMARY KEY,
    member_no INTEGER NOT NULL REFERENCES members(member_no),
    item_no INTEGER NOT NULL REFERENCES collection(item_no),
    lent_on DATE,
    days_kept INTEGER
);
CREATE TABLE ratings (
    member_no INTEGER NOT NULL REFERENCES members(member_no),
    item_no INTEGER NOT NULL REFERENCES collection(item_no),
    stars INTEGER,
    PRIMARY KEY (member_no, item_no)
);
