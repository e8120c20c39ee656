"""Whether a history is whole, and says of each line what the tables take for granted.

Decides which lines make a verdict doubtful; judges nothing else. A line that no table takes, or that lacks what its
operation says, would be as good as left out, and what it shows with it. Counts and sums only, no shuffle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.history import schema
from checkers.history.applications import COORDINATION

OPERATIONS = ("send", "poll", "list_offsets", "delete_records", "process", *COORDINATION)
"""What a client does, by `f`; those that `coordination` does not take are of one partition each."""
NEMESIS = ("start", "stop", "unavailable", "skipped")
"""What a line of the nemesis says, by `f`."""


@dataclass(frozen=True, slots=True)
class HistoryHealth:
    """Whether the file is whole. `problems` are reasons for unknown; a torn last line is legal and counted.

    deletions: how many of its operations delete records. remakes: whether some are of topics that are made anew.
    """

    lines: int
    operations: int
    torn: int
    problems: tuple[str, ...]
    deletions: int = 0
    remakes: bool = False


def health_of(raw: DataFrame, operations: DataFrame, torn: bool) -> HistoryHealth:
    """raw: all lines. operations: those that can be read, joined. torn: whether the file's last line has no end.

    Indices 0 … n−1 each once have the right count, maximum, sum and sum of squares.
    """
    readable = F.col(schema.CORRUPT).isNull()
    client = readable & (F.col("kind") == "client")
    index = F.col("index").cast("decimal(38,0)")
    known = F.coalesce(_is_known(), F.lit(False))
    named = F.coalesce(_has_a_name(), F.lit(False))
    nameless, lacking = readable & known & ~named, client & known & named & F.coalesce(_lacks(), F.lit(True))
    row = raw.agg(
        F.count(F.lit(1)).alias("lines"),
        F.count_if(~readable).alias("unreadable"),
        F.max("index").alias("last"),
        F.sum(index).alias("index_sum"),
        F.sum(index * index).alias("square_sum"),
        F.count_if(client & (F.col("type") == "invoke")).alias("operations"),
        F.count_if(client & (F.col("type") != "invoke")).alias("completions"),
        F.count_if(readable & ~known).alias("strange"),
        F.count_if(nameless).alias("nameless"),
        F.min(F.when(nameless, _line())).alias("first_nameless"),
        F.count_if(lacking).alias("lacking"),
        F.min(F.when(lacking, _line())).alias("first_lacking"),
        F.count_if(client & (F.col("type") == "invoke") & (F.col("f") == "delete_records")).alias("deletions"),
        F.count_if(client & F.col("topic_id").isNotNull()).alias("remakes"),
    ).first()
    completed = F.col("completion").isNotNull()
    early = completed & (F.col("complete_ns") < F.col("invoke_ns"))
    other = completed & F.coalesce(F.col("completion_of") != who(), F.lit(False))
    first = F.struct(F.col("completion").alias("index"), "f")
    joined = operations.agg(
        F.count(F.lit(1)).alias("rows"),
        F.count("completion").alias("completed"),
        F.count_if(early).alias("early"),
        F.min(F.when(early, first)).alias("first_early"),
        F.count_if(other).alias("other"),
        F.min(F.when(other, first)).alias("first_other"),
    ).first()
    assert row is not None
    assert joined is not None
    torn_lines = 1 if torn and row.unreadable else 0
    problems: list[str] = []
    if row.operations == 0:
        problems.append("the history holds no operation")
    if row.unreadable > torn_lines:
        problems.append(f"{row.unreadable - torn_lines} lines of the history cannot be read")
    n = row.lines - row.unreadable
    whole = (n - 1, n * (n - 1) // 2, (n - 1) * n * (2 * n - 1) // 6)
    if n and (row.last, int(row.index_sum or 0), int(row.square_sum or 0)) != whole:
        problems.append(f"the history's indices have gaps or repeats: {n} readable lines, last index {row.last}")
    if joined.rows != row.operations or joined.completed != row.completions:
        problems.append("operations of the history are completed twice, or completions name no invocation")
    if row.strange:
        problems.append(f"{row.strange} lines of the history are of no type or kind that there is, or lack f or time")
    found = (
        (row.nameless, row.first_nameless, "say something that no table knows"),
        (row.lacking, row.first_lacking, "lack what their operation has to say"),
        (joined.early, joined.first_early, "complete an operation before it began"),
        (joined.other, joined.first_other, "complete an operation of another process, name or partition"),
    )
    problems += [f"{count} lines of the history {what}, first {_told(line)}" for count, line, what in found if count]
    return HistoryHealth(row.lines, row.operations, torn_lines, tuple(problems), row.deletions, row.remakes > 0)


def who() -> Column:
    """What an invocation and its completion have in common, as a number; null where a line does not say what it is."""
    return F.when(F.col("f").isNotNull(), F.xxhash64("f", "process", "topic", "partition"))


def _line() -> Column:
    return F.struct("index", "f")


def _told(line: tuple[int | None, str | None]) -> str:
    """The first of such lines."""
    return f"line {line[0]} (f = {line[1]})"


def _is_known() -> Column:
    """Of a line: of a type and a kind that some table takes, and it says what was done, and when: no rule is true of
    what has no time.
    """
    known = F.col("type").isin("invoke", "ok", "fail", "info") & F.col("kind").isin("client", "nemesis", "harness")
    return known & F.col("f").isNotNull() & F.col("time_ns").isNotNull()


def _has_a_name() -> Column:
    """Of a known line: whether what it says was done is what some table takes. The harness may say what it likes."""
    of_client = F.col("f").isin(*OPERATIONS)
    return (
        F.when(F.col("kind") == "client", of_client)
        .when(F.col("kind") == "nemesis", F.col("f").isin(*NEMESIS))
        .otherwise(F.lit(True))
    )


_SAYS: dict[tuple[str, str], tuple[str, ...]] = {
    ("send", "invoke"): ("values", "acks"),
    ("poll", "invoke"): ("position",),
    ("poll", "ok"): ("next_position", "records"),
    ("list_offsets", "invoke"): ("timestamp",),
    ("list_offsets", "ok"): ("offset",),
    ("delete_records", "invoke"): ("before",),
    ("process", "invoke"): ("values",),
    ("add_partitions", "invoke"): ("partitions",),
    ("txn_offsets", "invoke"): ("group", "offsets"),
    ("end_txn", "invoke"): ("commit",),
    ("join", "ok"): ("member", "generation"),
    ("sync", "invoke"): ("group", "member", "generation"),
    ("sync", "ok"): ("partitions",),
    ("heartbeat", "invoke"): ("group", "member", "generation"),
    ("commit_offsets", "invoke"): ("group", "offsets"),
    ("fetch_offsets", "invoke"): ("group", "partitions"),
    ("fetch_offsets", "ok"): ("offsets",),
    ("alter_config", "invoke"): ("config", "setting"),
    ("describe_config", "invoke"): ("config",),
    ("describe_config", "ok"): ("setting",),
    ("create_partitions", "invoke"): ("count",),
    ("count_partitions", "ok"): ("count",),
}
"""Of an operation, by `f` and `type`: fields without which its line is in no table, or shows nothing."""


def _lacks() -> Column:
    """Of a client's line: whether it lacks something without which its operation is in no table, or shows nothing."""
    f, kind = F.col("f"), F.col("type")

    def any_null(names: tuple[str, ...]) -> Column:
        return reduce(Column.__or__, [F.col(name).isNull() for name in names])

    where = ~f.isin(*COORDINATION) & any_null(("topic", "partition"))
    said = reduce(
        lambda so_far, of: so_far.when((f == of[0]) & (kind == of[1]), any_null(_SAYS[of])),
        _SAYS,
        F.when(F.lit(False), F.lit(True)),
    ).otherwise(F.lit(False))
    # Which value, and which record, each rule takes for one whose value cannot be read.
    nothing = F.exists("values", lambda value: value.isNull())
    nowhere = F.exists("records", lambda one: one["offset"].isNull() | one["intact"].isNull())
    return where | said | F.coalesce(nothing, F.lit(False)) | F.coalesce(nowhere, F.lit(False))
