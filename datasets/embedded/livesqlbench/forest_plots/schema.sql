CREATE TABLE plots (
    plot_key TEXT PRIMARY KEY,
    plot_label TEXT NOT NULL,
    land TEXT,
    stand JSONB
);
CREATE TABLE trees (
    tree_key BIGINT PRIMARY KEY,
    plot_key TEXT NOT NULL REFERENCES plots(plot_key),
    species_name TEXT NOT NULL,
    girth JSONB
);
CREATE TABLE field_visits (
    visit_key BIGINT PRIMARY KEY,
    plot_key TEXT NOT NULL REFERENCES plots(plot_key),
    surveyor TEXT NOT NULL,
    visited_on DATE,
    notes JSONB
);
