"""Great Expectations suites for published tables: row count and nulls first, then keys, closed sets and ranges (known fault S08).

Belongs here: what may be expected of a table, running suites, and their data-docs page. Does not belong here: what a release
or a run promises (how many rows, which values, what refers to what); that comes from the caller.
Expectations pass on empty and all-null tables, so an exact row count and not-null always stand before value checks.
A suite costs about 35 ms and the import 5 s: validate whole tables once, not partitions.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import polars as pl

from tasks_lib.store.schemas import Table

Bounds = tuple[float | None, float | None]
SHOWN = 3
"""Offending values that a failure tells."""


class Kind(StrEnum):
    """What is expected. The value is the first word of a failure."""

    ROW_COUNT = "row_count"
    NOT_NULL = "not_null"
    UNIQUE = "unique_key"
    ALLOWED = "allowed"
    RANGE = "range"
    EQUAL = "equal"
    MATCHES = "matches"


@dataclass(frozen=True)
class Check:
    """One expectation. `value`: rows (ROW_COUNT), the closed set (ALLOWED), bounds (RANGE) or pattern (MATCHES); EQUAL takes
    two columns. `about`: why, in words, told with a failure."""

    kind: Kind
    columns: tuple[str, ...] = ()
    value: Any = None
    about: str = ""

    @property
    def label(self) -> str:
        """How a failure begins."""
        shown = ", ".join(self.columns)
        if self.kind is Kind.RANGE:
            shown += f" {self.value[0]}..{self.value[1]}"
        if self.kind is Kind.ROW_COUNT:
            shown = f"{shown} {self.value}".strip()
        return f"{self.kind.value}: {shown}" + (f" ({self.about})" if self.about else "")


@dataclass(frozen=True)
class Suite:
    """A table with what is expected of it, in the order in which failures are told. `key`: columns that name a row."""

    name: str
    frame: pl.DataFrame
    checks: tuple[Check, ...]
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class QualityReport:
    """`failures`: one line per failed expectation, beginning with its name (a value of `Kind`)."""

    table: str
    ok: bool
    failures: list[str] = field(default_factory=list)


class QualityFailed(ValueError):
    """A published table broke its suite."""


def _context() -> Any:
    """A fresh ephemeral context without analytics, progress bars and log lines (5 s to import the first time)."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    logging.getLogger("great_expectations.data_context.types.base").disabled = True  # it sets its own level to INFO
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def _expectation(check: Check, place: int) -> Any:
    import great_expectations.expectations as gxe

    one = check.columns[0] if check.columns else ""
    common: dict[str, Any] = {"meta": {"place": place}}
    if check.about:
        common["description"] = check.label  # what the docs show in place of GX's own sentence
    match check.kind:
        case Kind.ROW_COUNT:
            return gxe.ExpectTableRowCountToEqual(value=check.value, **common)
        case Kind.NOT_NULL:
            return gxe.ExpectColumnValuesToNotBeNull(column=one, **common)
        case Kind.UNIQUE if len(check.columns) == 1:
            return gxe.ExpectColumnValuesToBeUnique(column=one, **common)
        case Kind.UNIQUE:
            return gxe.ExpectCompoundColumnsToBeUnique(column_list=list(check.columns), ignore_row_if="never", **common)
        case Kind.ALLOWED:
            return gxe.ExpectColumnValuesToBeInSet(column=one, value_set=sorted(check.value, key=str), **common)
        case Kind.RANGE:
            low, high = check.value
            return gxe.ExpectColumnValuesToBeBetween(column=one, min_value=low, max_value=high, **common)
        case Kind.EQUAL:
            first, second = check.columns
            return gxe.ExpectColumnPairValuesToBeEqual(
                column_A=first, column_B=second, ignore_row_if="neither", **common
            )
        case Kind.MATCHES:
            return gxe.ExpectColumnValuesToMatchRegex(column=one, regex=check.value, **common)


def inspect(suites: Sequence[Suite], docs: Path | None = None) -> list[QualityReport]:
    """Run suites, each on its whole table; reports in the same order.

    docs: folder that is given the data-docs site of these runs (`index.html`; an older site there is replaced). The site holds
    values of the tables: keep it as private as they are.

    Raises ValueError when `docs` is a folder of something else.
    """
    context = _context()
    import great_expectations as gx  # after _context, which silences its loggers

    source = context.data_sources.add_pandas(name="published")
    reports = []
    for suite in suites:
        known = gx.ExpectationSuite(name=suite.name)
        for place, check in enumerate(suite.checks):
            known.add_expectation(_expectation(check, place))
        asset = source.add_dataframe_asset(name=suite.name)
        definition = gx.ValidationDefinition(
            name=suite.name,
            data=asset.add_batch_definition_whole_dataframe("whole"),
            suite=context.suites.add(known),
        )
        outcome = context.validation_definitions.add(definition).run(
            batch_parameters={"dataframe": _pandas(suite.frame)},
            result_format={
                "result_format": "SUMMARY",
                "partial_unexpected_count": SHOWN,
                **({"unexpected_index_column_names": list(suite.key)} if suite.key else {}),
            },
        )
        failed = {r.expectation_config.meta["place"]: r for r in outcome.results if not r.success}
        failures = [f"{suite.checks[place].label}, found {_found(failed[place])}" for place in sorted(failed)]
        reports.append(QualityReport(suite.name, not failures, failures))
    if docs is not None:
        _write_docs(context, docs)
    return reports


def suite_of(
    table: Table,
    frame: pl.DataFrame,
    expected_rows: int,
    allowed: Mapping[str, Collection[Any]] | None = None,
    ranges: Mapping[str, Bounds] | None = None,
    more: Sequence[Check] = (),
) -> Suite:
    """The suite of a published table: exact row count, not-null of every column that may not be null, unique key, then
    `allowed` (closed set by column), `ranges` ((low, high) inclusive by column, None is open) and `more`.

    Columns beyond the table's own may stand in the frame for `more` to speak of.
    """
    checks = [Check(Kind.ROW_COUNT, (table.name,), expected_rows)]
    checks += [Check(Kind.NOT_NULL, (name,)) for name in table.schema.names if name not in table.nullable]
    checks.append(Check(Kind.UNIQUE, table.key))
    checks += [Check(Kind.ALLOWED, (name,), frozenset(values)) for name, values in (allowed or {}).items()]
    checks += [Check(Kind.RANGE, (name,), bounds) for name, bounds in (ranges or {}).items()]
    return Suite(table.stage, frame, (*checks, *more), table.key)


def validate(
    table: Table,
    frame: pl.DataFrame,
    expected_rows: int,
    allowed: Mapping[str, Collection[Any]] | None = None,
    ranges: Mapping[str, Bounds] | None = None,
) -> QualityReport:
    """Check a whole published table: see `suite_of`.

    Raises ValueError for a column that the table does not have, and for a frame without the table's columns.
    """
    unknown = sorted(({*(allowed or {})} | {*(ranges or {})}) - set(table.schema.names))
    if unknown:
        raise ValueError(f"Suite of {table.stage}: no columns {unknown}, expected some of {table.schema.names}.")
    if set(frame.columns) != set(table.schema.names):
        odd = sorted(set(frame.columns) ^ set(table.schema.names))
        raise ValueError(f"Suite of {table.stage}: expected the table's columns, found a difference in {odd}.")
    return inspect([suite_of(table, frame, expected_rows, allowed, ranges)])[0]


def require(*reports: QualityReport) -> None:
    """Raise QualityFailed naming every table that broke its suite and every failed expectation."""
    broken = [f"{report.table} broke its suite: {'; '.join(report.failures)}" for report in reports if not report.ok]
    if broken:
        raise QualityFailed(f"{' | '.join(broken)}; fix the producing stage.")


def _pandas(frame: pl.DataFrame) -> Any:
    """The frame for GX; of lists and structs only their presence, since suites ask nothing more of them."""
    return frame.with_columns(
        pl.when(pl.col(name).is_not_null()).then(pl.lit("present")).alias(name)
        for name, kind in frame.schema.items()
        if kind.is_nested()
    ).to_pandas()


def _found(result: Any) -> str:
    found = result.result or {}
    if result.exception_info.get("raised_exception"):
        return str(result.exception_info.get("exception_message"))
    if "observed_value" in found:
        return str(found["observed_value"])
    rows = found.get("partial_unexpected_index_list") or []
    if found.get("unexpected_index_column_names") and rows:
        shown = [", ".join(f"{name} {value!r}" for name, value in row.items()) for row in rows[:SHOWN]]
    else:
        shown = [repr(value) for value in list(found.get("partial_unexpected_list", []))[:SHOWN]]
    return f"{found.get('unexpected_count')} odd rows such as {'; '.join(shown)}"


_AWAY = re.compile(
    r"<link[^>]*href=\"https?://[^>]*>|<script[^>]*src=\"https?://[^>]*>\s*</script>|<img[^>]*src=\"https?://[^>]*>"
)


def _write_docs(context: Any, folder: Path) -> None:
    """Build the site with GX's own builder, then take out what would be fetched from elsewhere: it is read offline."""
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / "index.html").is_file())):
        raise ValueError(f"{folder} exists and is no data-docs site; name an empty or new folder.")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    context.variables.data_docs_sites = {
        "site": {
            "class_name": "SiteBuilder",
            "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder.resolve())},
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "show_how_to_buttons": False,
        }
    }
    context.build_data_docs()
    for page in sorted(folder.rglob("*.html")):
        page.write_text(_AWAY.sub("", page.read_text("utf-8")), "utf-8")
