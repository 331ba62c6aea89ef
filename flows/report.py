"""The flow that verifies a run and writes its results page (`results`), and links both in the dashboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from pydantic import Field

from flows import runs
from flows.results import write_report


@flow(name="report", flow_run_name="report {run}")
async def report(
    run: Annotated[str, Field(strict=True)] = "", against: Annotated[str, Field(strict=True)] = ""
) -> dict[str, Any]:
    """Verify a run and write its results page.

    Args:
        run: Id of the run; empty means the last one.
        against: Id of the run it is set beside; empty means the previous completed run of its release, if there is one.
    """
    spec, record = runs.load(run)
    made = await write_report(spec, record, against)
    if made["report"]:
        await create_link_artifact(
            Path(made["report"]).as_uri(), key="results-page", link_text="Results page", description=made["report"]
        )  # type: ignore[misc]
    summary = json.dumps({k: v for k, v in made["verification"].items() if k != "problems"}, indent=1)
    await create_markdown_artifact(f"Page: `{made['report']}`\n\n```json\n{summary}\n```", key="verification")  # type: ignore[misc]
    return {"run": spec.run_id, **made}
