CREATE TABLE acts (
    act_id INTEGER PRIMARY KEY,
    act_nm TEXT NOT NULL,
    origin TEXT,
    members INTEGER
);
CREATE TABLE singles (
    sgl_id INTEGER PRIMARY KEY,
    sgl_ttl TEXT NOT NULL,
    act_id INTEGER NOT NULL REFERENCES acts(act_id),
    lbl TEXT,
    rel_yr INTEGER,
    expl INTEGER
);
CREATE TABLE chart_weeks (
    wk DATE,
    sgl_id INTEGER NOT NULL REFERENCES singles(sgl_id),
    chart_pos INTEGER,
    strm_k INTEGER,
    PRIMARY KEY (wk, sgl_id)
);
