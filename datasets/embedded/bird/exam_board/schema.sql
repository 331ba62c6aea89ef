CREATE TABLE centres (
    centre_id INTEGER PRIMARY KEY,
    centre_nm TEXT NOT NULL,
    region TEXT,
    ctr_type TEXT
);
CREATE TABLE candidates (
    cand_no TEXT PRIMARY KEY,
    cand_nm TEXT NOT NULL,
    sex TEXT,
    centre_id INTEGER NOT NULL REFERENCES centres(centre_id),
    birth_dt DATE
);
CREATE TABLE papers (
    paper_cd TEXT PRIMARY KEY,
    subj TEXT,
    tier TEXT,
    max_mark INTEGER
);
CREATE TABLE results (
    cand_no TEXT NOT NULL REFERENCES candidates(cand_no),
    paper_cd TEXT NOT NULL REFERENCES papers(paper_cd),
    sess TEXT,
    mark INTEGER,
    PRIMARY KEY (cand_no, paper_cd)
);
