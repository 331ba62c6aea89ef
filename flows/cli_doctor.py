"""`doctor`: what is there, what is missing, how to get it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flows.cli_support import (
    BackendOption,
    BackendsOption,
    Bird,
    Json,
    LiveSQLBench,
    Spider,
    app,
    backends_of,
    finish,
    guarded,
)


@app.command()
def doctor(
    spider: Spider = None,
    bird: Bird = None,
    livesqlbench: LiveSQLBench = None,
    backend: BackendOption = None,
    backends_file: BackendsOption = None,
    json_: Json = False,
) -> None:
    """What is there, what is missing, and how to get it: one line each. Exit code 1 if something needed is not right."""

    def work() -> dict[str, Any]:
        specs = backends_of(backend, backends_file)
        from flows.doctor import examine

        findings = examine([str(root or "") for root in (spider, bird, livesqlbench)], specs)
        status = "failed" if any(finding.bad for finding in findings) else "completed"
        return {"status": status, "checks": [asdict(finding) for finding in findings]}

    report = guarded(json_, work)
    finish(json_, report, "\n".join(map(_line, report["checks"])), report["status"] == "completed")


def _line(check: dict[str, Any]) -> str:
    remedy = f" -> {check['remedy']}" if check["remedy"] else ""
    return f"{check['state']:<8}{check['name']:<14}{check['found']}{remedy}"
