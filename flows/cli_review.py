"""Commands on a finished release: `review export|script|import|adjudicate` and `revision`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli_support import BadUsage, Json, app, finish, folder_of, guarded

review = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Review a release in two locked passes, and adjudicate it.",
)
app.add_typer(review, name="review")

ReleaseOption = Annotated[Path, typer.Option("--release", help="Release folder.")]
ReviewOption = Annotated[Path, typer.Option("--review", help="Review folder, as `review export` made it.")]
NewOption = Annotated[Path, typer.Option("--out", help="Folder of the new version; must be new or empty.")]


def _refusing(work: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """`work` with what the review floor refuses told as bad usage."""

    def told() -> dict[str, Any]:
        from tasks_lib.contracts.review.questions import ReviewRefused

        try:
            return work()
        except ReviewRefused as error:
            raise BadUsage(str(error)) from error

    return told


def _load(folder: Path) -> Any:
    from tasks_lib.contracts.release import Release

    return Release.load(Path(folder_of(folder, "--release")))


@review.command("export")
def export_command(
    release: ReleaseOption,
    out: Annotated[Path, typer.Option(help="Review folder to make; must be new or empty.")],
    reviewers: Annotated[int, typer.Option(help="How many people review.")] = 3,
    double_share: Annotated[float, typer.Option(help="Share of the tasks that two people review.")] = 0.55,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 1,
    key_file: Annotated[Path | None, typer.Option(help="File whose secret bytes key the anonymous item ids.")] = None,
    json_: Json = False,
) -> None:
    """Plan who reviews what, and write the first pass for every reviewer."""

    def work() -> dict[str, Any]:
        from tasks_lib.contracts.review import assignments, packets
        from tasks_lib.contracts.review.questions import ReviewRefused

        found = _load(release)
        key = None
        if key_file is not None:
            key = key_file.read_bytes() if key_file.is_file() else b""
            if len(key) < 16:
                raise BadUsage(
                    f"--key-file {key_file} holds {len(key)} bytes, expected a file with at least 16 random ones."
                )
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ReviewRefused(f"--out {out} exists, expected a new or empty folder for the review.")
        if out.resolve().is_relative_to(found.folder):
            raise ReviewRefused(f"--out {out} is inside the release, expected a folder of its own.")
        made = assignments.plan(found, reviewers, double_share, seed, key)
        for name in made.reviewers:
            packets.write(packets.packet(found, made, name, 1), out / name)
        assignments.save(made, out)
        load = {name: len(made.of(name)) for name in made.reviewers}
        tasks = len(found.tasks)
        return {
            "status": "completed",
            "review": str(out),
            "tasks": tasks,
            "reviewed_twice": len(made.assignments) - tasks,
            "assignments": load,
        }

    record = guarded(json_, _refusing(work))
    text = (
        f"review {record['review']}: {record['tasks']} tasks, {record['reviewed_twice']} of them twice; {record['assignments']}.\n"
        f"Hand each reviewer the folder of that name and keep {record['review']}/private to yourself."
    )
    finish(json_, record, text, True)


@review.command("script")
def script_command(
    packet: Annotated[Path, typer.Option(help="CSV form of a packet.")],
    out: Annotated[Path, typer.Option(help="CSV file of answers to write.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 1,
    json_: Json = False,
) -> None:
    """Fill in a packet by script, labelled so, to try the procedure; this is no review."""

    def work() -> dict[str, Any]:
        from tasks_lib.contracts.review.packets import write_text
        from tasks_lib.contracts.review.scripted import answer

        text = answer(packet, seed)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_text(out, text)
        return {"status": "completed", "answers": str(out), "by": "scripted"}

    record = guarded(json_, _refusing(work))
    finish(json_, record, f"scripted answers: {record['answers']}", True)


@review.command("import")
def import_command(
    release: ReleaseOption,
    review: ReviewOption,
    answers: Annotated[list[Path], typer.Option(help="An answered packet, JSON or CSV; repeatable.")],
    close: Annotated[bool, typer.Option("--close", help="Leave items without any answer out for good.")] = False,
    json_: Json = False,
) -> None:
    """Take in answered packets, all or none; pass 2 opens for each pass 1 that is saved."""

    def work() -> dict[str, Any]:
        from tasks_lib.contracts.review import imports
        from tasks_lib.contracts.review.packets import write_text
        from tasks_lib.contracts.review.summary import decision_form, summary

        found = _load(release)
        taken = imports.take(found, review, answers, close)
        report = summary(review)
        write_text(review / "private/report.json", json.dumps(report, indent=1, sort_keys=True) + "\n")
        write_text(review / "private/decisions.csv", decision_form(found, review))
        return {
            "status": "completed",
            "imported": [{"reviewer": name, "pass": number} for name, number in taken.passes],
            "left_open": taken.left_open,
            "opened": [str(path) for path in taken.opened],
            **report,
        }

    record = guarded(json_, _refusing(work))
    finish(json_, record, _report_text(record), True)


def _report_text(record: dict[str, Any]) -> str:
    lines = [f"pass {item['pass']} of {item['reviewer']} is saved." for item in record["imported"]]
    lines += [f"opened: {path}" for path in record["opened"]]
    lines.append(record["statement"])
    for row in record["agreement"]:
        if row["pair"] == "all":
            kappa = "undefined" if row["kappa"] is None else f"{row['kappa']:.3f}"
            lines.append(
                f"{row['by']} pass {row['pass']} {row['question']}: {row['equal']} of {row['judged']} equal, kappa {kappa}"
            )
    return "\n".join(lines)


@review.command("adjudicate")
def adjudicate_command(
    release: ReleaseOption,
    decisions: Annotated[
        Path,
        typer.Option(
            help="CSV or JSON, one row a task: task_id, decision (keep, repair, delete, escalate), severity (none, minor, "
            "major, critical), rationale, by (person, scripted), request (of a repair)."
        ),
    ],
    out: NewOption,
    review: Annotated[Path | None, typer.Option(help="Review folder whose reviews the new version carries.")] = None,
    json_: Json = False,
) -> None:
    """Apply KEEP, REPAIR, DELETE and ESCALATE to a release: a new version with its audit trail, or nothing."""

    def work() -> dict[str, Any]:
        from tasks_lib.contracts.review import assignments, imports
        from tasks_lib.contracts.review.decisions import adjudicate

        found = _load(release)
        reviews = None
        if review is not None:
            assignments.load(review, found)
            reviews = imports.saved(review)
        return {"status": "completed", **adjudicate(found, decisions, out, reviews).as_json()}

    _finish_version(json_, guarded(json_, _refusing(work)))


@app.command("revision")
def revision_command(
    release: ReleaseOption,
    changes: Annotated[Path, typer.Option(help="New requests as CSV or JSON: task_id, request, rationale.")],
    out: NewOption,
    json_: Json = False,
) -> None:
    """Repair the wording of tasks without review: a new version, and the tasks whose scores must be computed again."""

    def work() -> dict[str, Any]:
        from tasks_lib.contracts.review.decisions import reword

        return {"status": "completed", **reword(_load(release), changes, out).as_json()}

    _finish_version(json_, guarded(json_, _refusing(work)))


def _finish_version(json_: bool, record: dict[str, Any]) -> None:
    lines = [
        f"release {record['release']}: version {record['number']} of {record['parent'][:16]}, {record['tasks']} tasks.",
        f"scores to compute again: {', '.join(record['rerun']) or 'none'}",
    ]
    for name in ("deleted", "escalated"):
        if record[name]:
            lines.append(f"{name}: {', '.join(record[name])}")
    finish(json_, record, "\n".join(lines), True)
