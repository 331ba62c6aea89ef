CREATE TABLE tutors (
    tutor_id INTEGER PRIMARY KEY,
    tutor_name TEXT NOT NULL,
    field TEXT,
    hourly_rate REAL
);
CREATE TABLE courses (
    course_code TEXT PRIMARY KEY,
    course_title TEXT NOT NULL,
    tutor_id INTEGER NOT NULL REFERENCES tutors(tutor_id),
    credits INTEGER,
    fee REAL
);
CREATE TABLE students (
    student_id INTEGER PRIMARY KEY,
    student_name TEXT NOT NULL,
    city TEXT,
    former_school TEXT,
    birth_year INTEGER
);
CREATE TABLE enrollments (
    student_id INTEGER NOT NULL REFERENCES students(student_id),
    course_code TEXT NOT NULL REFERENCES courses(course_code),
    term TEXT,
    mark INTEGER,
    PRIMARY KEY (student_id, course_code)
);
