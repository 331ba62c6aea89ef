"""SQL that wants to write, to leave the database, to take everything, or to fool whoever checks it; and SQL that only looks so.

A grammar of attacks and mutations of what it makes, by a seed: the same seed gives the same statements. No expectations here.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from tasks_lib.protocol.vocabulary import Engine

LOOT = "dsa_loot"
"""Begins the name of every file, table, role, channel and large thing that a statement tries to make."""

Draw = random.Random

_COUNT = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) SELECT {what} FROM r"

_SQLITE = (
    "ATTACH DATABASE '{file}' AS {loot}",
    "ATTACH ':memory:' AS {loot}",
    "ATTACH 'file:{file}?mode=rwc' AS {loot}",
    "DETACH DATABASE main",
    "VACUUM",
    "VACUUM INTO '{file}'",
    "VACUUM main INTO '{file}'",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = 1",
    "PRAGMA journal_mode = WAL",
    "PRAGMA user_version = {n}",
    "PRAGMA temp_store_directory = '{folder}'",
    "PRAGMA hard_heap_limit = 0",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA optimize",
    "SELECT * FROM pragma_table_info('item')",
    "SELECT * FROM pragma_user_version({n})",
    "CREATE TABLE {loot} (a)",
    "CREATE TEMP TABLE {loot} AS SELECT * FROM item",
    "CREATE VIRTUAL TABLE {loot} USING fts5(a)",
    "CREATE VIRTUAL TABLE temp.{loot} USING dbstat",
    "CREATE TRIGGER {loot} AFTER INSERT ON item BEGIN DELETE FROM item; END",
    "DROP TABLE item",
    "ALTER TABLE item RENAME TO {loot}",
    "INSERT INTO item VALUES ({n}, '{loot}', 1.5)",
    "INSERT OR REPLACE INTO item SELECT * FROM item",
    "REPLACE INTO item VALUES (1, '{loot}', 0)",
    "UPDATE item SET name = '{loot}' WHERE id = {n}",
    "UPDATE sqlite_master SET sql = '{loot}'",
    "DELETE FROM item RETURNING id",
    "DELETE FROM words WHERE words MATCH 'a'",
    "INSERT INTO words(words) VALUES ('optimize')",
    "REINDEX",
    "ANALYZE",
    "BEGIN IMMEDIATE",
    "SAVEPOINT {loot}",
    "SELECT load_extension('{file}')",
    "SELECT load_extension('{file}', 'main')",
    "SELECT writefile('{file}', 'x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT edit('x', 'touch {file}')",
    "SELECT fts3_tokenizer('simple', x'0000000000000000')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT * FROM sqlite_dbpage",
    "SELECT sqlite_log(1, '{loot}')",
    "SELECT * FROM fsdir('/')",
    "SELECT zeroblob({big}), zeroblob({big})",
    "SELECT length(zeroblob({big}) || zeroblob({big}))",
    "SELECT hex(randomblob({big}))",
    "SELECT printf('%.*c', {big}, 'x')",
    "SELECT printf('%{big}d', 1)",
    "SELECT format('%-{big}s', 'x')",
    "SELECT replace(hex(zeroblob(20000)), '0', hex(zeroblob(20000)))",
    "SELECT group_concat(a.name || b.name) FROM item a, item b",
    "SELECT quote(zeroblob({big}))",
    "SELECT * FROM item WHERE name LIKE '{percents}'",
    "SELECT * FROM item WHERE hex(zeroblob(400)) GLOB '{stars}'",
)
_SQLITE_SLOW = (
    _COUNT.replace("{what}", "count(*)"),
    _COUNT.replace("{what}", "n"),
    _COUNT.replace("{what}", "max(hex(randomblob(1000)))"),
    "SELECT count(*) FROM item a, item b, item c, item d, item e",
    "SELECT instr(hex(zeroblob(9000000)), hex(zeroblob(4000000)) || '1')",
    "WITH RECURSIVE r(t) AS (SELECT 'x' UNION ALL SELECT t || t FROM r) SELECT max(length(t)) FROM r",
    "SELECT max(t) FROM (SELECT hex(randomblob(900)) AS t FROM item a, item b, item c ORDER BY 1 LIMIT 999999)",
    "SELECT hex(zeroblob(3000)) LIKE '{percents}' FROM item",
)
_POSTGRES = (
    "COPY item TO '{file}'",
    "COPY item FROM '/etc/passwd'",
    "COPY (SELECT 1) TO PROGRAM 'touch {file}'",
    "COPY item FROM PROGRAM 'touch {file}'",
    "COPY item TO STDOUT",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export({n}, '{file}')",
    "SELECT lo_create({n})",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT lo_unlink({n})",
    "SELECT * FROM dblink('dbname=postgres', 'DROP ROLE {loot}') AS t(a int)",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('PG_VERSION')",
    "SELECT * FROM pg_ls_dir('/')",
    "SELECT pg_stat_file('/etc/passwd')",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_catalog.pg_shadow",
    "SELECT query FROM pg_stat_activity",
    "SELECT * FROM pg_settings",
    "SELECT * FROM pg_largeobject",
    "SET ROLE postgres",
    "SET SESSION AUTHORIZATION postgres",
    "RESET ALL",
    "RESET ROLE",
    "SET statement_timeout = 0",
    "SET default_transaction_read_only = off",
    "SET TRANSACTION READ WRITE",
    "BEGIN READ WRITE",
    "COMMIT",
    "ALTER SYSTEM SET archive_command = 'touch {file}'",
    "ALTER ROLE CURRENT_USER SET statement_timeout = 0",
    "ALTER ROLE CURRENT_USER SUPERUSER",
    "CREATE ROLE {loot} SUPERUSER",
    "GRANT ALL ON item TO PUBLIC",
    "DO $$ BEGIN PERFORM pg_sleep(0); END $$",
    "DO $a$ BEGIN EXECUTE 'CREATE TABLE {loot} (a int)'; END $a$",
    "DO LANGUAGE plpgsql 'BEGIN SET default_transaction_read_only = off; DELETE FROM item; END'",
    "CALL {loot}()",
    "SELECT * INTO {loot} FROM item",
    "SELECT 1 INTO TEMP {loot}",
    "CREATE TABLE {loot} AS SELECT 1",
    "CREATE UNLOGGED TABLE {loot} (a int)",
    "CREATE TEMP TABLE {loot} (a int)",
    "CREATE FUNCTION {loot}() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE EXTENSION dblink",
    "CREATE DATABASE {loot}",
    "INSERT INTO item VALUES ({n}, '{loot}', 1)",
    "INSERT INTO item SELECT * FROM item RETURNING id",
    "UPDATE item SET name = '{loot}'",
    "DELETE FROM item",
    "TRUNCATE item",
    "DROP TABLE item CASCADE",
    "DROP OWNED BY CURRENT_USER",
    "MERGE INTO item USING item AS u ON item.id = u.id WHEN MATCHED THEN DELETE",
    "SELECT nextval('counter')",
    "SELECT setval('counter', {n})",
    "SELECT set_config('statement_timeout', '0', false)",
    "SELECT set_config('default_transaction_read_only', 'off', false)",
    "SELECT pg_advisory_lock({n})",
    "SELECT pg_try_advisory_xact_lock({n})",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity",
    "SELECT pg_cancel_backend({n})",
    "SELECT pg_notify('{loot}', 'x')",
    "SELECT pg_reload_conf()",
    "SELECT pg_rotate_logfile()",
    "SELECT pg_switch_wal()",
    "SELECT pg_logical_emit_message(false, '{loot}', 'x')",
    "SELECT pg_create_restore_point('{loot}')",
    "SELECT pg_export_snapshot()",
    "SELECT query_to_xml('DELETE FROM item', true, true, '')",
    "SELECT database_to_xml(true, true, '')",
    "SELECT * FROM ts_stat('SELECT 1')",
    "SELECT owner_power()",
    "SELECT public.owner_power()",
    "EXPLAIN ANALYZE DELETE FROM item",
    "EXPLAIN (ANALYZE, BUFFERS) INSERT INTO item VALUES ({n}, 'x', 1)",
    "LISTEN {loot}",
    "NOTIFY {loot}, 'x'",
    "UNLISTEN *",
    "PREPARE {loot} AS DELETE FROM item",
    "EXECUTE {loot}",
    "DEALLOCATE ALL",
    "DECLARE {loot} CURSOR WITH HOLD FOR SELECT 1",
    "LOCK TABLE item IN ACCESS EXCLUSIVE MODE",
    "SELECT * FROM item FOR UPDATE",
    "SELECT * FROM item FOR NO KEY UPDATE SKIP LOCKED",
    "VACUUM FULL item",
    "CLUSTER item",
    "REINDEX TABLE item",
    "CHECKPOINT",
    "DISCARD ALL",
    "LOAD '{file}'",
    "SECURITY LABEL ON TABLE item IS 'x'",
    "COMMENT ON TABLE item IS '{loot}'",
    "IMPORT FOREIGN SCHEMA public FROM SERVER {loot} INTO public",
    "SELECT repeat('x', {big}), repeat('y', {big})",
    "SELECT lpad('x', {big}) || lpad('y', {big})",
    "SELECT array_fill(0, ARRAY[{big}])",
    "SELECT 10::numeric ^ 100000",
    "SELECT repeat('a', 3000) LIKE '{percents}'",
    "SELECT regexp_replace(repeat('a', 60), '(a*)*b', '')",
)
_POSTGRES_SLOW = (
    _COUNT.replace("{what}", "count(*)"),
    _COUNT.replace("{what}", "n"),
    "SELECT pg_sleep(100)",
    "SELECT count(pg_sleep_for('1 minute'))",
    "SELECT count(*) FROM generate_series(1, 1000000000) a, generate_series(1, 1000000000) b",
    "SELECT string_agg(repeat('x', 1000), '') FROM generate_series(1, 900000)",
    "SELECT array_agg(repeat('x', 100000) || g) FROM generate_series(1, 90000) g",
    "DO $$ BEGIN LOOP END LOOP; END $$",
    "SELECT factorial(90000)",
)


def _filled(draw: Draw, template: str, folder: str) -> str:
    number = draw.randrange(1, 100_000)
    values = {
        "file": f"{folder}/{LOOT}_{number}",
        "folder": folder,
        "loot": f"{LOOT}_{number}",
        "n": str(number),
        "big": str(draw.choice((10**6, 10**8, 10**9, 2**31 - 1, 10**12))),
        "percents": "%a%" * draw.choice((3, 12, 40)) + "b",
        "stars": "*0" * draw.choice((3, 10, 30)) + "x",
    }
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)


# ---- mutations: each takes a statement and gives another ----


def _case(draw: Draw, sql: str) -> str:
    return "".join(draw.choice((c.upper(), c.lower())) for c in sql)


def _comments(draw: Draw, sql: str) -> str:
    fillers = (
        "/**/",
        "/* ; */",
        " -- '\n",
        "/* /* */",
        "/* /* */ */",
        " --\r\n",
        "/*! x */",
        "/*'*/",
        "--\r",
        "-- /*\n",
    )
    return "".join(draw.choice(fillers) if c == " " and draw.random() < 0.4 else c for c in sql)


def _spaces(draw: Draw, sql: str) -> str:
    blanks = ("\t", "\n", "\r\n", "\f", "\v", "\u00a0", "\u2003", "\ufeff", "\r", "  ")
    return "".join(draw.choice(blanks) if c == " " and draw.random() < 0.3 else c for c in sql)


def _second(draw: Draw, sql: str) -> str:
    first = draw.choice(("SELECT 1", "SELECT ';'", "SELECT 1 -- don't\n", "VALUES (1)", "SELECT $$;$$", "", "/* */"))
    return f"{first}{draw.choice((';', ' ; ', ';;', chr(10) + ';', '; -- x' + chr(10)))}{sql}{draw.choice(('', ';', ' --'))}"


def _cte(draw: Draw, sql: str) -> str:
    name = draw.choice(("x", '"x"', "item", "x(a)"))
    kind = draw.choice(("", "", "RECURSIVE ", "x0 AS (SELECT 1), "))
    hint = draw.choice(("", "", "MATERIALIZED ", "NOT MATERIALIZED "))
    return f"WITH {kind}{name} AS {hint}({sql}) SELECT * FROM {name.split('(')[0]}"


def _inside(draw: Draw, sql: str) -> str:
    around = (
        "SELECT * FROM ({}) AS s",
        "SELECT EXISTS ({})",
        "SELECT 1 WHERE 1 IN ({})",
        "SELECT 1 UNION ALL {}",
        "({})",
        "SELECT ({})",
        "SELECT CASE WHEN 1 = 1 THEN ({}) END",
        "SELECT 1 ORDER BY ({})",
        "SELECT 1 LIMIT ({})",
        "VALUES (({}))",
        "SELECT * FROM item JOIN LATERAL ({}) s ON true",
    )
    return draw.choice(around).format(sql)


def _prefixed(draw: Draw, sql: str) -> str:
    before = (
        "EXPLAIN ",
        "EXPLAIN ANALYZE ",
        "EXPLAIN QUERY PLAN ",
        "PREPARE p AS ",
        "BEGIN; ",
        "DO $$ BEGIN ",
        "EXECUTE IMMEDIATE ",
        "CREATE VIEW dsa_loot_v AS ",
        "RETURN ",
        "SELECT ",
        "/*",
        "'",
    )
    return draw.choice(before) + sql


def _swallowed(draw: Draw, sql: str) -> str:
    """Text that reads as a string to one reader and as code to another."""
    call = sql.removeprefix("SELECT ")
    forms = (
        "SELECT '\\', {} --'",
        "SELECT E'\\', {} --'",
        "SELECT E'\\\\', {} --'",
        "SELECT '''', {} --",
        "SELECT 'a' -- \r, {} \n",
        "SELECT 1 /* /* */, {} /* */ */",
        "SELECT $a$ $b$ $a$, {} --$b$",
        "SELECT $$a$$, {}",
        'SELECT "a\\", {} --"',
        "SELECT `a\\`, {} --`",
        "SELECT [a], {} --]",
        "SELECT U&'\\0027', {} --'",
        "SELECT N'\\', {} --'",
        "SELECT x'00', {}",
        "SELECT 1 # {}\n",
        "SELECT 1 {{# #}}, {}",
        "SELECT :a, {}",
        "SELECT $1, {}",
    )
    return draw.choice(forms).format(call)


def _names(draw: Draw, sql: str) -> str:
    """Function names quoted, qualified, in other letters or set apart from their brackets."""
    forms = ('"{}"(', "pg_catalog.{}(", 'pg_catalog."{}"(', "main.{}(", "{} (", "{}/**/(", 'U&"{}"(', "`{}`(", "[{}](")
    form = draw.choice(forms)
    return re.sub(r"\b([a-z]\w+)\(", lambda found: form.format(found[1]), sql)


def _homoglyphs(draw: Draw, sql: str) -> str:
    table = {"a": "а", "e": "е", "o": "о", "s": "ſ", "k": "K", "i": "ı", ";": ";", "(": "（", "'": "’"}
    at = [i for i, c in enumerate(sql) if c.lower() in table]
    chosen = set(draw.sample(at, min(len(at), draw.randrange(1, 4))))
    return "".join(table[c.lower()] if i in chosen else c for i, c in enumerate(sql))


def _odd_characters(draw: Draw, sql: str) -> str:
    at = draw.randrange(len(sql) + 1)
    return (
        sql[:at]
        + draw.choice(("\x00", "\ud800", "\u202e", "\u200b", "\x1a", "\\", "'", '"', "$$", ";", "?"))
        + sql[at:]
    )


def _cut(draw: Draw, sql: str) -> str:
    at = draw.randrange(len(sql) + 1)
    return sql[:at] if draw.random() < 0.6 else sql[at:]


def _shuffled(draw: Draw, sql: str) -> str:
    words = sql.split(" ")
    for _ in range(draw.randrange(1, 3)):
        at = draw.randrange(len(words))
        words[at : at + 1] = draw.choice(([], [words[at]] * 2, [draw.choice(words)]))
        words = words or [""]
    return " ".join(words)


def _huge(draw: Draw, sql: str) -> str:
    n = draw.choice((200,) * 12 + (3_000,) * 4 + (30_000,))
    pads = (
        f"SELECT {'1,' * n}1; {sql}",
        f"{sql} -- {'x' * n}",
        f"{sql} /* {'(' * n} */",
        f"SELECT '{chr(39) * 2 * n}'; {sql}",
    )
    return draw.choice(pads)


def _deep(draw: Draw, sql: str) -> str:
    n = draw.choice((5,) * 6 + (40,) * 4 + (400,))
    nests = (
        f"SELECT {'(' * n}{sql}{')' * n}",
        f"SELECT {'NOT ' * n}({sql})",
        f"SELECT {'- ' * n}1; {sql}",
        f"SELECT {'ARRAY[' * n}1{']' * n}",
        f"SELECT {'CASE WHEN 1=1 THEN ' * n}1{' END' * n}",
        f"SELECT 1{' UNION ALL SELECT 1' * n} UNION ALL {sql}",
        f"SELECT * FROM {'(SELECT * FROM ' * n}item{') s' * n}",
        f"SELECT {'abs(' * n}1{')' * n}",
        f"SELECT 1{' + 1' * n}",
    )
    return draw.choice(nests)


_MUTATIONS: tuple[Callable[[Draw, str], str], ...] = (
    _case, _comments, _spaces, _second, _cte, _inside, _prefixed, _swallowed, _names, _homoglyphs, _odd_characters, _cut,
    _shuffled, _huge, _deep,
)  # fmt: skip


def hostile(engine: Engine, seed: int, count: int, folder: str, slow_share: float = 0.006) -> Iterator[str]:
    """`count` hostile statements for one engine.

    Args:
        folder: where they try to leave files. slow_share: how many are meant to run until they are stopped.
    """
    draw = random.Random(f"{engine}/{seed}")
    quick, slow = (_SQLITE, _SQLITE_SLOW) if engine is Engine.SQLITE else (_POSTGRES, _POSTGRES_SLOW)
    for number in range(count):
        if draw.random() < slow_share:
            yield _filled(draw, draw.choice(slow), folder)
            continue
        # Every attack comes once as it is; then any, mutated up to three times.
        template = quick[number] if number < len(quick) else draw.choice(quick)
        sql = _filled(draw, template, folder)
        for _ in range(0 if number < len(quick) else draw.choice((1, 1, 2, 3))):
            sql = draw.choice(_MUTATIONS)(draw, sql)
        yield sql


# ---- and what must run ----

_PLAIN = (
    "SELECT name FROM item WHERE id < 5",
    "SELECT count(*) FROM item",
    "SELECT replace(name, 'a', 'b') FROM item WHERE id = 1",
    "SELECT name AS \"update\" FROM item WHERE name <> 'DELETE FROM item'",
    "WITH d AS (SELECT id FROM item) SELECT max(id) FROM d",
    "SELECT 'DROP TABLE item; --' AS s",
    "SELECT max(price) FROM item GROUP BY name HAVING count(*) > 0 ORDER BY 1 LIMIT 3",
    "SELECT a.name FROM item a JOIN item b ON a.id = b.id WHERE a.id IN (SELECT id FROM item)",
    "VALUES (1), (2)",
    "SELECT 1 UNION SELECT 2",
    "SELECT CASE WHEN price > 1 THEN 'INSERT' ELSE 'UPDATE' END FROM item WHERE id < 3",
    "SELECT 'it''s; PRAGMA x' || ' COPY item TO STDOUT' FROM item WHERE name LIKE '%;%' OR id = 1",
)


def harmless(engine: Engine, seed: int, count: int) -> Iterator[str]:
    """`count` plain read-only statements in strange clothes; each must run and give a result."""
    draw = random.Random(f"{engine}/harmless/{seed}")
    comments = (
        "-- DROP TABLE item\n",
        "/* ; DELETE */",
        "/* ' */",
        "-- \" '\n",
        "/**/",
        "/* -- */",
        "--;\n",
        "/* $$ [ ` */",
    )
    strings = ("DROP TABLE item", "; DELETE", "--", "/*", "''", "$$", "\\", "ATTACH 'x' AS y", ":a", "?", "%s", "é ; ж")
    for _ in range(count):
        sql = draw.choice(_PLAIN)
        if draw.random() < 0.3:
            text = draw.choice(strings).replace("'", "''")
            sql = f"SELECT * FROM ({sql}) AS s, (SELECT '{text}' AS t) AS t"
        # Blanks outside strings take comments and line ends.
        parts = re.split(r"('(?:[^']|'')*'|\"[^\"]*\")", sql)
        for at in range(0, len(parts), 2):
            parts[at] = "".join(
                draw.choice((" ", "\n", "\t", " " + draw.choice(comments) + " ")) if c == " " else c for c in parts[at]
            )
        yield (
            draw.choice(("", "", draw.choice(comments), "\n\t "))
            + "".join(parts)
            + draw.choice(("", ";", ";;", " ; -- bye", "\n;\n", "; /* DROP */", " -- no newline", " /* a */ ;; -- b"))
        )
