"""What has come up to each row of one long order: running counts and maxima, without a window over all rows.

A window without a key is one task, on however many machines. So rows are taken by slices of the order: each slice by
itself, and what all slices before it come to is added to it. Short jobs keep the plain window: they have one task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from checkers.spark.tables import in_one_piece

Fold = tuple[Literal["count", "max"], str]
"""Of which column what is kept; rows without it count for nothing."""


def running(frame: DataFrame, slices: Column, order: Sequence[Column], folds: Mapping[str, Fold]) -> DataFrame:
    """The rows, each with the folds of all rows up to it, itself among them. frame is computed twice in a long job.

    slices: where a row lies in the order, coarsely, never null: rows of one slice stand together there. order: of the
    rows within one, and of all where they are taken in one piece.
    """
    if in_one_piece(frame.sparkSession):
        up_to = Window.partitionBy(F.lit(0)).orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
        return frame.withColumns({name: _within(fold).over(up_to) for name, fold in folds.items()})
    return by_slices(frame, slices, order, folds)


def by_slices(frame: DataFrame, slices: Column, order: Sequence[Column], folds: Mapping[str, Fold]) -> DataFrame:
    """`running`, whatever the job."""
    sliced = frame.withColumn("_slice", slices)
    up_to = Window.partitionBy("_slice").orderBy(*order).rowsBetween(Window.unboundedPreceding, 0)
    earlier = Window.partitionBy(F.lit(0)).orderBy("_slice").rowsBetween(Window.unboundedPreceding, -1)
    # A row for each slice: few.
    before = (
        sliced.groupBy("_slice")
        .agg(*[_within(fold).alias(name) for name, fold in folds.items()])
        .select("_slice", *[_all(fold, name).over(earlier).alias(f"_before_{name}") for name, fold in folds.items()])
    )
    return (
        sliced.withColumns({name: _within(fold).over(up_to) for name, fold in folds.items()})
        .join(F.broadcast(before), on="_slice", how="inner")
        .withColumns({name: _with(fold, name) for name, fold in folds.items()})
        .drop("_slice", *[f"_before_{name}" for name in folds])
    )


def _within(fold: Fold) -> Column:
    kind, column = fold
    return F.count(column) if kind == "count" else F.max(column)


def _all(fold: Fold, of_slice: str) -> Column:
    """Of the slices before."""
    return F.sum(of_slice) if fold[0] == "count" else F.max(of_slice)


def _with(fold: Fold, name: str) -> Column:
    """What is within the slice, and what was before it."""
    before = F.col(f"_before_{name}")
    # `greatest` leaves out what is null.
    return F.col(name) + F.coalesce(before, F.lit(0)) if fold[0] == "count" else F.greatest(name, before)
