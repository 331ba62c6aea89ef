"""Prefect flows: orchestration only."""

from __future__ import annotations

import time

BEGUN = time.time_ns()
"""When this process began to load the code, nanoseconds since the epoch."""
