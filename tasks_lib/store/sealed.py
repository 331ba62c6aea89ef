"""A ledger that is only read: whoever asks for an item that is not stored is refused, and nothing is made or leased.

What runs over it has proved that it needs no new call and no new execution.
"""

from __future__ import annotations

from collections.abc import Iterable

from tasks_lib.store.ledgers import Entry, Lease, Ledger


class NotStored(RuntimeError):
    """An item is wanted that the ledger does not hold; its producer is not asked. `kind`: of the item."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message, kind)
        self.kind = kind

    def __str__(self) -> str:
        return str(self.args[0])


class SealedLedger(Ledger):
    """A ledger in which `once` gives stored items and raises NotStored for all others."""

    def acquire(self, key: str, kind: str) -> Lease | Entry | None:
        """The stored entry. Raises NotStored."""
        entry = self.get(key)
        if entry is None:
            raise NotStored(f"the ledger holds no {kind.replace('_', ' ')} {key[:12]}, expected it from the run", kind)
        return entry

    def lease_new(self, keys: Iterable[str], kind: str) -> list[Lease]:
        """None: what is not stored is for `acquire` to refuse."""
        del keys, kind
        return []
