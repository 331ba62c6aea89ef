"""Where things are kept: one place that reads the environment. No other module reads `DSABENCH_*` variables."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict

PROJECT_ROOT = Path(__file__).resolve().parents[2]


class Settings(BaseSettings):
    """Environment settings, each with prefix `DSABENCH_`.

    home: folder of everything that runs write (default `artifacts/` of the project).
    store_url, ledger_url: fsspec URL of the artifact store and SQLAlchemy URL of the ledger (default: inside home).
    postgres_url: an administrator's URL of a running PostgreSQL server; empty starts the embedded one.
    data: folder of real corpora for tests.
    runner: where jobs of offline policies run: `processes`, `dask` (a local cluster), or a Dask scheduler's address.
    cells_at_once: cell subflows at a time; 1 is fastest on Prefect's SQLite server, 8 on a PostgreSQL-backed one.
    """

    model_config = SettingsConfigDict(env_prefix="DSABENCH_", extra="ignore")

    home: Path = PROJECT_ROOT / "artifacts"
    store_url: str = ""
    ledger_url: str = ""
    postgres_url: str = ""
    data: Path | None = None
    runner: str = "processes"
    cells_at_once: int = 1

    @property
    def resolved_store_url(self) -> str:
        return self.store_url or str(self.home.resolve() / "store")

    @property
    def resolved_ledger_url(self) -> str:
        return self.ledger_url or f"sqlite:///{self.home.resolve() / 'ledger.sqlite'}"


@lru_cache(maxsize=16)
def _settings(_environment: tuple[tuple[str, str], ...]) -> Settings:
    return Settings()


def settings() -> Settings:
    """The settings of this process; read anew when a `DSABENCH_*` variable changes, so that tests may set them."""
    return _settings(tuple(sorted(item for item in os.environ.items() if item[0].startswith("DSABENCH_"))))
