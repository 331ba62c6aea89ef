"""Print `artifacts/README.md`."""

from __future__ import annotations

from tasks_lib.store.schemas import readme

print(readme(), end="")
