"""Infrastructure faults of the SQL floor: what stops a run and is no verdict about anybody's SQL.

Belongs here: the exception types, and taking physical names out of messages. Does not belong here: failures of a
statement (timeout, error, refused ...); those are results, see `execute`. Worker processes start with it, so it imports
what it needs where it needs it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tasks_lib.protocol.vocabulary import InfrastructureFault


class DatabaseFault(Exception):
    """A database or server cannot be used; the item stays not done and the run is resumed after the repair."""

    word = ""
    """What the kind of fault is called on the wire."""

    @property
    def kind(self) -> InfrastructureFault:
        """The kind of fault."""
        from tasks_lib.protocol.vocabulary import InfrastructureFault

        return InfrastructureFault(self.word)


class DatabaseMissing(DatabaseFault):
    """A database file is not there (`db_missing`)."""

    word = "db_missing"


class DatabaseDamaged(DatabaseFault):
    """A database file is there but cannot be read as a database, or a dump does not load (`db_damaged`)."""

    word = "db_damaged"


class ServerUnavailable(DatabaseFault):
    """No PostgreSQL server can be reached or started."""

    word = "server_unavailable"


FAULTS: dict[str, type[DatabaseFault]] = {
    fault.word: fault for fault in (DatabaseMissing, DatabaseDamaged, ServerUnavailable)
}


def scrub(message: str, names: Mapping[str, str]) -> str:
    """Replace physical names and paths in `message` by public ids, whole names only, longest first.

    Args:
        message: a raw engine message, which may name files, databases and folders.
        names: physical name or path -> public id. An absolute path is replaced wherever it occurs; a plain name only
            where no letter, digit or underscore touches it, so `pets` is not cut out of `carpets`. Case is ignored.
    """
    import re

    if not names:
        return message
    wanted = sorted((name for name in names if name), key=lambda name: (-len(name), name))
    public = {name.casefold(): names[name] for name in reversed(wanted)}
    patterns = [re.escape(name) if "/" in name else rf"(?<!\w){re.escape(name)}(?!\w)" for name in wanted]
    return re.sub("|".join(patterns), lambda match: public[match.group().casefold()], message, flags=re.IGNORECASE)
