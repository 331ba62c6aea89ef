"""Great Expectations suites for published tables: row count and nulls first, then keys, closed sets and ranges (known fault S08).

What a table looks like is in `schemas`; what a release or run promises (how many rows, which values) comes from the caller.
Expectations pass on empty and all-null tables, so an exact row count and not-null always stand before value checks.
A suite costs about 35 ms and the import 5 s: validate whole tables once, not partitions.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import polars as pl

from tasks_lib.store.schemas import Table

Bounds = tuple[float | None, float | None]


@dataclass(frozen=True)
class QualityReport:
    """`failures`: one line per failed expectation, beginning with its name (row_count, not_null, unique_key, allowed, range)."""

    table: str
    ok: bool
    failures: list[str] = field(default_factory=list)


class QualityFailed(ValueError):
    """A published table broke its suite."""


@cache
def _context() -> Any:
    """An ephemeral context without analytics and progress bars (5 s to import)."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    logging.getLogger("great_expectations").setLevel(logging.WARNING)  # it tells of its temporary folders

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def _expectations(
    table: Table, expected_rows: int, allowed: Mapping[str, Collection[Any]], ranges: Mapping[str, Bounds]
) -> list[tuple[str, Any]]:
    """(name, expectation) in the order that failures are reported."""
    import great_expectations.expectations as gxe

    made: list[tuple[str, Any]] = [
        (f"row_count: {table.name} {expected_rows}", gxe.ExpectTableRowCountToEqual(value=expected_rows))
    ]
    for name in table.schema.names:
        if name not in table.nullable:
            made.append((f"not_null: {name}", gxe.ExpectColumnValuesToNotBeNull(column=name)))
    key = ", ".join(table.key)
    if len(table.key) == 1:
        made.append((f"unique_key: {key}", gxe.ExpectColumnValuesToBeUnique(column=table.key[0])))
    else:
        made.append(
            (
                f"unique_key: {key}",
                gxe.ExpectCompoundColumnsToBeUnique(column_list=list(table.key), ignore_row_if="never"),
            )
        )
    for name, values in allowed.items():
        made.append(
            (f"allowed: {name}", gxe.ExpectColumnValuesToBeInSet(column=name, value_set=sorted(values, key=str)))
        )
    for name, (low, high) in ranges.items():
        made.append(
            (
                f"range: {name} {low}..{high}",
                gxe.ExpectColumnValuesToBeBetween(column=name, min_value=low, max_value=high),
            )
        )
    return made


def validate(
    table: Table,
    frame: pl.DataFrame,
    expected_rows: int,
    allowed: Mapping[str, Collection[Any]] | None = None,
    ranges: Mapping[str, Bounds] | None = None,
) -> QualityReport:
    """Check a whole published table. `allowed`: closed set per column; `ranges`: (low, high) inclusive, None is open.

    Raises ValueError for a column that the table does not have, and for a frame without the table's columns.
    """
    allowed, ranges = dict(allowed or {}), dict(ranges or {})
    unknown = sorted((allowed.keys() | ranges.keys()) - set(table.schema.names))
    if unknown:
        raise ValueError(f"Suite of {table.stage}: no columns {unknown}, expected some of {table.schema.names}.")
    if set(frame.columns) != set(table.schema.names):
        odd = sorted(set(frame.columns) ^ set(table.schema.names))
        raise ValueError(f"Suite of {table.stage}: expected the table's columns, found a difference in {odd}.")
    import great_expectations as gx

    context = _context()
    named = _expectations(table, expected_rows, allowed, ranges)
    suite = gx.ExpectationSuite(name=table.name)
    for place, (_, expectation) in enumerate(named):
        expectation.meta = {"place": place}
        suite.add_expectation(expectation)
    source = context.data_sources.add_or_update_pandas(name="published")
    asset = source.add_dataframe_asset(name=table.name)
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": _pandas(frame)})
    outcome = batch.validate(suite)
    failed = {result.expectation_config.meta["place"]: result for result in outcome.results if not result.success}
    failures = [f"{named[place][0]}, found {_found(failed[place])}" for place in sorted(failed)]
    return QualityReport(table.stage, not failures, failures)


def require(report: QualityReport) -> None:
    """Raise QualityFailed naming every failed expectation."""
    if not report.ok:
        raise QualityFailed(f"{report.table} broke its suite: {'; '.join(report.failures)}; fix the producing stage.")


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
    return f"{found.get('unexpected_count')} odd values such as {list(found.get('partial_unexpected_list', []))[:3]}"
