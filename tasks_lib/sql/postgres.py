"""The PostgreSQL server: the embedded one or any by URL, and dumps loaded into it, each once.

Belongs here: reaching the server, loading dumps, the read-only role. Does not belong here: the embedded server's
processes (`postgres_embedded`), running queries (`postgres_session`), deciding which may run (`guard`).

One data folder holds one embedded server, shared by every process that opens the folder. The last of them to end stops it;
should that one have died, the server runs on for the next to open the folder.
A dump becomes the database `dsa_<first 40 digits of its digest>`. It is loaded under a working name and renamed when it
is complete: a database of that name is a whole dump.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import subprocess
from multiprocessing.util import Finalize
from pathlib import Path
from types import TracebackType

import psycopg
from psycopg import conninfo, sql

from tasks_lib.sql.faults import DatabaseDamaged, DatabaseMissing, ServerUnavailable
from tasks_lib.sql.postgres_embedded import Embedded, bundled_psql, file_lock, hold, leave, log_end, start
from tasks_lib.store.keys import sha256_file

READER = "dsabench_reader"
"""Login role of every query: SELECT grants, nothing else."""

# Also set on each connection; here they hold for anybody who logs in as the reader.
_READER_SETTINGS = {
    "default_transaction_read_only": "on",
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "statement_timeout": "60s",
    "max_parallel_workers_per_gather": "0",
    "client_connection_check_interval": "500ms",
    "search_path": "public",
    "jit": "off",
}
_REVOKED_FUNCTIONS = (
    "^(lo_.*|loread|lowrite|pg_(try_)?advisory_.*|pg_notify|(query|cursor|table|schema|database)_to_xml.*"
    "|pg_(cancel|terminate)_backend|pg_stat_get_activity|set_config|setseed|ts_stat|ts_rewrite|pg_logical_emit_message"
    "|pg_export_snapshot)$"
)


class PostgresServer:
    """A running server that dumps can be loaded into. Make one with `embedded` or `at_url`."""

    def __init__(self, admin: str, psql: str, embedded: Embedded | None) -> None:
        self._admin = admin
        self._psql = psql
        self._embedded = embedded
        self._user_pid = 0
        self._password = ""
        self._dsns: dict[str, str] = {}

    @classmethod
    def at_url(cls, url: str) -> PostgresServer:
        """Use a running server. `url` must belong to a role that may create databases and roles.

        Raises:
            ServerUnavailable: nothing answers there.
        """
        try:
            conninfo.conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            raise ServerUnavailable(
                f"DSABENCH_POSTGRES_URL is no connection string ({' '.join(str(error).split())}), expected one such as "
                "postgresql://user:password@host:5432/postgres; correct it, or unset it to use the embedded server."
            ) from None
        server = cls(url, bundled_psql(), None)
        server._connect("postgres").close()
        return server

    @classmethod
    def embedded(cls, folder: Path) -> PostgresServer:
        """Start the packaged server with its data in `folder` (made if needed), or share the one running there.

        Raises:
            ServerUnavailable: it does not start; the message gives the end of its log.
        """
        folder = folder.resolve()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with file_lock(folder):
                place = start(folder)
                admin = conninfo.make_conninfo(host=str(place.socket), user="postgres")
                server = cls(admin, str(place.binaries / "psql"), place)
                server._hold()
        except (OSError, subprocess.SubprocessError) as error:
            raise ServerUnavailable(
                f"The embedded PostgreSQL server does not start in {folder} ({error}){log_end(folder)}; free the folder, "
                "or set DSABENCH_POSTGRES_URL to a running server."
            ) from error
        return server

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the embedded server unless another process uses it; for a server by URL do nothing."""
        if self._embedded is None or self._user_pid != os.getpid():
            return
        self._user_pid = 0
        leave(self._embedded)

    def _hold(self) -> None:
        assert self._embedded is not None
        if not hold(self._embedded.folder):
            return
        self._user_pid = os.getpid()
        # Not atexit: children of a process pool leave without it. The finalizer runs only in the process that made it.
        Finalize(None, self.close, exitpriority=10)

    def ensure_database(self, dump: Path, digest: str) -> str:
        """Return the reader's connection string of the database with the content of `dump`, loading it if need be.

        Args:
            dump: absolute path of a plain SQL dump. digest: sha256 hex of its bytes; it names the database.

        Raises:
            ServerUnavailable: the server does not answer. DatabaseMissing: no dump there. DatabaseDamaged: the dump does
            not load; nothing of it stays behind.
        """
        if digest not in self._dsns:
            if not re.fullmatch(r"[0-9a-f]{40,64}", digest):
                raise ValueError(f"The digest of {dump} is {digest!r}, expected sha256 in hexadecimal.")
            name = f"dsa_{digest[:40]}"
            with self._connect("postgres") as admin:
                # Held by the session: whoever comes second waits, and then finds the database.
                admin.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (name,))
                found = admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
                self._password = self._reader_password(admin)
                self._ensure_reader(admin)
                if found is None:
                    self._load(admin, dump, digest, name)
            self._dsns[digest] = self._reader_dsn(name)
        return self._dsns[digest]

    def _load(self, admin: psycopg.Connection, dump: Path, digest: str, name: str) -> None:
        if not dump.is_file():
            raise DatabaseMissing(f"db_missing: no SQL dump at {dump}; put it there and resume.")
        if (found := sha256_file(dump)) != digest:
            raise DatabaseDamaged(
                f"db_damaged: the dump {dump} has sha256 {found}, expected {digest}; restore it, or build the release anew."
            )
        working = sql.Identifier(f"{name}_load")
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(working))
        # Text sorts by code point everywhere; where the server knows it, lower() and upper() fold all letters.
        builtin = "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8'" if admin.info.server_version >= 170000 else ""
        create = "CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' " + builtin
        admin.execute(sql.SQL(create).format(working))
        try:
            self._ensure_owners(admin, dump)
            self._run_dump(f"{name}_load", dump)
            self._grant(f"{name}_load")
            admin.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(working, sql.Identifier(name)))
        except BaseException:
            admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(working))
            raise

    def _run_dump(self, database: str, dump: Path) -> None:
        command = [self._psql, "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-d", self._dsn(database), "-f", str(dump)]
        environment = {**os.environ, "PGOPTIONS": "-c synchronous_commit=off", "PGCLIENTENCODING": "UTF8"}
        done = subprocess.run(command, capture_output=True, env=environment, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            reason = done.stderr.decode("utf-8", "replace").strip().splitlines()
            first = next((line for line in reason if "ERROR" in line or "FATAL" in line), " ".join(reason[:1]))
            raise DatabaseDamaged(
                f"db_damaged: the dump {dump} does not load ({first}); nothing of it was kept. Restore it and resume."
            )

    def _grant(self, database: str) -> None:
        with self._connect(database) as connection:
            identifier, reader = sql.Identifier(database), sql.Identifier(READER)
            schemas = connection.execute(
                "SELECT nspname FROM pg_namespace WHERE nspname <> 'information_schema' AND nspname !~ '^pg_' ORDER BY 1"
            ).fetchall()
            statements = [
                "REVOKE ALL ON DATABASE {database} FROM PUBLIC",
                "GRANT CONNECT ON DATABASE {database} TO {reader}",
            ]
            for statement in statements:
                connection.execute(sql.SQL(statement).format(database=identifier, reader=reader))
            for (schema,) in schemas:
                for statement in (
                    "REVOKE ALL ON SCHEMA {schema} FROM PUBLIC",
                    "REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM PUBLIC",
                    "REVOKE ALL ON ALL ROUTINES IN SCHEMA {schema} FROM PUBLIC",
                    "GRANT USAGE ON SCHEMA {schema} TO {reader}",
                    "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader}",
                ):
                    connection.execute(sql.SQL(statement).format(schema=sql.Identifier(schema), reader=reader))
            # Anybody may call these by default; most write, lock or run text where a read-only session lets them.
            functions = connection.execute(
                "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace "
                "AND proname ~ %s ORDER BY 1",
                (_REVOKED_FUNCTIONS,),
            ).fetchall()
            for (function,) in functions:
                connection.execute("REVOKE ALL ON FUNCTION " + function + " FROM PUBLIC")
            connection.execute("ANALYZE")

    def _ensure_reader(self, admin: psycopg.Connection) -> None:
        # Roles belong to the whole server: two loaders must not write one at the same time.
        with admin.transaction():
            admin.execute("SELECT pg_advisory_xact_lock(hashtextextended('dsabench roles', 0))")
            reader, password = sql.Identifier(READER), sql.Literal(self._password)
            if admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (READER,)).fetchone():
                admin.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(reader, password))
                return
            rights = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
            admin.execute(sql.SQL("CREATE ROLE {} " + rights + " PASSWORD {}").format(reader, password))
            settings = dict(_READER_SETTINGS)
            if admin.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (True,):
                settings["temp_file_limit"] = "2GB"  # only a superuser may give it
            for name, value in settings.items():
                admin.execute(
                    sql.SQL("ALTER ROLE {} SET {} = {}").format(reader, sql.Identifier(name), sql.Literal(value))
                )

    def _ensure_owners(self, admin: psycopg.Connection, dump: Path) -> None:
        """Dumps say `OWNER TO root` and the like: make those roles, without login, where they are missing."""
        with dump.open(encoding="utf-8", errors="surrogateescape") as stream:
            owners = {found[1] for line in stream if (found := re.match(r'ALTER .* OWNER TO "?([\w$]+)"?;$', line))}
        with admin.transaction():
            admin.execute("SELECT pg_advisory_xact_lock(hashtextextended('dsabench roles', 0))")
            for owner in sorted(owners - {READER}):
                if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (owner,)).fetchone():
                    admin.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(owner)))

    def _reader_password(self, admin: psycopg.Connection) -> str:
        """The same for everybody who knows the administrator's password, however the URL is written; stored nowhere."""
        (identity,) = admin.execute("SELECT system_identifier::text FROM pg_control_system()").fetchone() or ("",)
        secret = str(conninfo.conninfo_to_dict(self._admin).get("password") or "")
        return hmac.new(secret.encode(), f"{READER} {identity}".encode(), hashlib.sha256).hexdigest()

    def _dsn(self, database: str) -> str:
        return conninfo.make_conninfo(self._admin, dbname=database)

    def _reader_dsn(self, database: str) -> str:
        return conninfo.make_conninfo(self._admin, dbname=database, user=READER, password=self._password)

    def _connect(self, database: str) -> psycopg.Connection:
        try:
            return psycopg.connect(self._dsn(database), autocommit=True, connect_timeout=30)
        except psycopg.OperationalError as error:
            where = conninfo.conninfo_to_dict(self._admin)
            reason = " ".join(str(error).split())
            raise ServerUnavailable(
                f"No PostgreSQL server answers at {where.get('host', 'localhost')} ({reason}); start it, or unset "
                "DSABENCH_POSTGRES_URL to use the embedded one."
            ) from error


_shared: dict[tuple[int, str], PostgresServer] = {}


def shared_server(url: str, folder: Path) -> PostgresServer:
    """Return this process's server: the one at `url`, or with an empty `url` the embedded one in `folder`.

    Made at the first call; an embedded server stops when the last process that uses it ends. Call it from one
    thread at a time. Raises ServerUnavailable.
    """
    key = (os.getpid(), url or str(folder.resolve()))
    if key not in _shared:
        _shared[key] = PostgresServer.at_url(url) if url else PostgresServer.embedded(folder)
    return _shared[key]
