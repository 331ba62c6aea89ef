"""PRIVATE. The task browser of a run: a folder of pages that open offline, an index with filters and one page a task.

It holds gold (requests' contracts, SQL, answers), so it is never part of a publication package and no public page links to it; every
page says so. Belongs here: the folder, its index and how pages are written. What a task's page says is in browser_tasks.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tasks_lib.protocol.vocabulary import FailureStage
from tasks_lib.reporting.browser_views import TaskRows, TaskView
from tasks_lib.reporting.views import words

TEMPLATES = Path(__file__).with_name("templates")
MARKER = "PRIVATE.txt"
PRIVATE = (
    "This folder was made by `dsabench browse`. It holds gold: contracts, SQL and answers of every task. Keep it to evaluators; "
    "publish nothing of it.\n"
)
STAGES = tuple(FailureStage)


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A task on the index. `ends`: how many scored attempts ended in a stage, by (backend place, router place, stage place)."""

    task_id: str
    request: str
    corpus: str
    behavior: str
    difficulty: str
    databases: int
    candidates: int
    ends: Mapping[tuple[int, int, int], int]

    @property
    def tokens(self) -> str:
        """`ends` as the filter script reads them."""
        return " ".join(".".join(map(str, (*at, n))) for at, n in sorted(self.ends.items()))

    @property
    def attempts(self) -> int:
        return sum(self.ends.values())

    @property
    def solved(self) -> int:
        return sum(n for (_, _, stage), n in self.ends.items() if STAGES[stage] is FailureStage.NONE)

    @property
    def main(self) -> str:
        """The stage in which most attempts failed, or "" where none did; of equal ones the first tested."""
        failed: Counter[int] = Counter()
        for (_, _, stage), n in sorted(self.ends.items()):
            if STAGES[stage] is not FailureStage.NONE:
                failed[stage] += n
        return words(STAGES[min(failed, key=lambda s: (-failed[s], s))]) if failed else ""


def index_row(view: TaskView, chains: Sequence[TaskRows], backends: Sequence[str], routers: Sequence[str]) -> IndexRow:
    """What the index says of a task. `backends`, `routers`: names by place."""
    stages = {str(s): i for i, s in enumerate(STAGES)}
    ends: Counter[tuple[int, int, int]] = Counter()
    for rows in chains:
        at = backends.index(rows.backend), routers.index(rows.router)
        ends.update((*at, stages[e["failure_stage"]]) for e in rows.episodes)
    c = view.gold.contract
    return IndexRow(
        c.task_id,
        view.gold.task.request,
        str(c.corpus),
        str(c.behavior),
        str(c.difficulty),
        len(c.databases),
        len(view.gold.task.allowlist),
        ends,
    )


class Pages:
    """Renders the pages of one run. Style and scripts stand inside every page and are allowed by their digest alone."""

    def __init__(self, run: str, release: str) -> None:
        self._run, self._release = run, release
        css = "\n".join((TEMPLATES / name).read_text("utf-8") for name in ("page.css", "browser.css"))
        self._css = css.strip()

    @cached_property
    def _environment(self) -> Any:
        import jinja2

        return jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def task(self, view: TaskView, before: str = "", after: str = "", indexed: bool = True) -> str:
        """The page of a task. `before`, `after`: ids of its neighbours; `indexed`: whether there is an index to link to."""
        return self._page(
            "browser_task.html.j2", ("browser_task.js",), view=view, before=before, after=after, indexed=indexed
        )

    def index(self, rows: Sequence[IndexRow], backends: Sequence[str], routers: Sequence[str]) -> str:
        """The page of all tasks."""
        choices = {
            "Behavior": [(v, v) for v in sorted({r.behavior for r in rows})],
            "Corpus": [(v, v) for v in sorted({r.corpus for r in rows})],
            "Difficulty": [(v, v) for v in sorted({r.difficulty for r in rows})],
        }
        stages = [(i, "solved" if s is FailureStage.NONE else words(s)) for i, s in enumerate(STAGES)]
        seen = {stage for r in rows for _, _, stage in r.ends}
        return self._page(
            "browser_index.html.j2",
            ("sort.js", "browser_index.js"),
            rows=rows,
            choices=choices,
            backends=list(enumerate(backends)),
            routers=list(enumerate(routers)),
            stages=[s for s in stages if s[0] in seen],
        )

    def _page(self, template: str, scripts: Sequence[str], **values: object) -> str:
        script = "\n".join((TEMPLATES / name).read_text("utf-8") for name in scripts).strip()
        html: str = self._environment.get_template(template).render(
            css=self._css,
            script=script,
            css_digest=_csp_digest(self._css),
            script_digest=_csp_digest(script),
            run=self._run,
            release=self._release,
            **values,
        )
        return html


def _csp_digest(text: str) -> str:
    """The digest of an inline style or script as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def page_path(out: Path, task_id: str) -> Path:
    """Where the page of a task lies; `index.html` stands beside `tasks`."""
    return out / "tasks" / f"{task_id}.html"


def write_pages(
    out: Path,
    pages: Pages,
    views: Iterable[tuple[TaskView, Sequence[TaskRows]]],
    order: Sequence[str],
    backends: Sequence[str],
    routers: Sequence[str],
) -> int:
    """Write the marker, one page a task as `views` brings them (in `order`), then the index; how many tasks. `out` is empty."""
    (out / "tasks").mkdir(parents=True, exist_ok=True)
    (out / MARKER).write_text(PRIVATE, "utf-8")
    rows = []
    for place, (view, chains) in enumerate(views):
        task_id = view.gold.contract.task_id
        before = order[place - 1] if place else ""
        after = order[place + 1] if place + 1 < len(order) else ""
        page_path(out, task_id).write_text(pages.task(view, before, after), "utf-8")
        rows.append(index_row(view, chains, backends, routers))
    (out / "index.html").write_text(pages.index(rows, backends, routers), "utf-8")
    return len(rows)
