CREATE TABLE schools (
    school_id INTEGER PRIMARY KEY,
    school_name TEXT NOT NULL,
    district TEXT,
    founded INTEGER
);
CREATE TABLE teachers (
    teacher_id INTEGER PRIMARY KEY,
    teacher_name TEXT NOT NULL,
    school_id INTEGER NOT NULL REFERENCES schools(school_id),
    subject TEXT,
    salary INTEGER
);
CREATE TABLE pupils (
    pupil_id INTEGER PRIMARY KEY,
    pupil_name TEXT NOT NULL,
    school_id INTEGER NOT NULL REFERENCES schools(school_id),
    home_city TEXT,
    postal_code TEXT,
    grade_level INTEGER
);
CREATE TABLE classes (
    class_id INTEGER PRIMARY KEY,
    class_name TEXT NOT NULL,
    teacher_id INTEGER NOT NULL REFERENCES teachers(teacher_id),
    room TEXT,
    weekly_hours INTEGER
);
