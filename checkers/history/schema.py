"""Explicit Spark types of everything the checkers read: the history (version 1), the event log, the evidence tables.

A field that is missing in a line is null; a field of another type makes the line unreadable, which is counted and never
ignored. Source: docs/history-format.md, docs/event-log.md.
"""

from __future__ import annotations

from pyspark.sql import types as T

HISTORY_VERSION = 1
CORRUPT = "_corrupt_record"


def _struct(*fields: tuple[str, T.DataType]) -> T.StructType:
    return T.StructType([T.StructField(name, kind, True) for name, kind in fields])


_LONG, _INT, _TEXT, _BOOL = T.LongType(), T.IntegerType(), T.StringType(), T.BooleanType()

OFFSETS_TOPIC = "__consumer_offsets"
"""Where groups' offsets are, whatever the system."""
TRANSACTIONS_TOPIC = "__transaction_state"
"""Where the state of transactional ids is, whatever the system."""

OFFSET = _struct(("p", _TEXT), ("offset", _LONG))
"""A committed or fetched offset of a partition, `topic-partition`; -1: there is none."""

RECORD = _struct(("offset", _LONG), ("value", _LONG), ("epoch", _INT), ("intact", _BOOL))

HISTORY_LINE = _struct(
    ("type", _TEXT),
    ("index", _LONG),
    ("invoke", _LONG),
    ("time_ns", _LONG),
    ("process", _LONG),
    ("kind", _TEXT),
    ("f", _TEXT),
    ("phase", _TEXT),
    ("topic", _TEXT),
    ("topic_id", _TEXT),
    ("partition", _INT),
    ("node", _TEXT),
    ("error", _TEXT),
    # send
    ("values", T.ArrayType(_LONG)),
    ("acks", _INT),
    ("sentinel", _BOOL),
    ("base_offset", _LONG),
    ("keys", T.ArrayType(_LONG)),
    ("tombstones", T.ArrayType(_BOOL)),
    ("in_order", _BOOL),
    # poll
    ("position", _LONG),
    ("leader_epoch", _INT),
    ("isolation", _INT),
    ("reader", _TEXT),
    ("consumer", _TEXT),
    ("client_position", _LONG),
    ("next_position", _LONG),
    ("hw", _LONG),
    ("lso", _LONG),
    ("log_start", _LONG),
    ("records", T.ArrayType(RECORD)),
    # list_offsets
    ("timestamp", _LONG),
    ("offset", _LONG),
    ("leader_epoch_answered", _INT),
    ("timestamp_answered", _LONG),
    # delete_records
    ("before", _LONG),
    ("low_watermark", _LONG),
    # producers and transactions
    ("transactional_id", _TEXT),
    ("txn", _LONG),
    ("producer_id", _LONG),
    ("producer_epoch", _INT),
    ("sequence", _INT),
    ("resends", _LONG),
    ("sources", T.ArrayType(_LONG)),
    ("commit", _BOOL),
    # groups
    ("group", _TEXT),
    ("member", _TEXT),
    ("instance", _TEXT),
    ("generation", _INT),
    ("protocol", _TEXT),
    ("rebalance", _TEXT),
    ("session_ms", _LONG),
    ("rebalance_ms", _LONG),
    ("partitions", T.ArrayType(_TEXT)),
    ("offsets", T.ArrayType(OFFSET)),
    # applications
    ("promise", _TEXT),
    # administration
    ("config", _TEXT),
    ("setting", _LONG),
    ("count", _LONG),
    # nemesis
    ("fault", _TEXT),
    ("fault_id", _LONG),
    ("targets", T.ArrayType(_TEXT)),
    ("params_json", _TEXT),
    ("observed", _BOOL),
    ("observation", _TEXT),
    ("began_ns", _LONG),
    ("file", _TEXT),
    ("family", _TEXT),
    ("effects", T.ArrayType(_TEXT)),
    # harness
    ("leader", _TEXT),
    ("start", _LONG),
    ("end", _LONG),
    ("epoch", _INT),
    ("isr", T.ArrayType(_INT)),
    (CORRUPT, _TEXT),
)

# Lists of mixed types are read as text and cast where they are used.
_PARTS = T.ArrayType(T.ArrayType(_TEXT))

EVENT_LINE = _struct(
    ("e", _TEXT),
    ("b", _INT),
    ("i", _TEXT),
    ("s", _LONG),
    ("w", _LONG),
    ("m", _LONG),
    ("p", _TEXT),
    ("le", _INT),
    ("pe", _INT),
    ("be", _LONG),
    ("ce", _INT),
    ("truncation", _TEXT),
    ("min_isr", _INT),
    ("unclean", _BOOL),
    ("log_start", _LONG),
    ("leo", _LONG),
    ("hw", _LONG),
    ("clean", _BOOL),
    ("isr", T.ArrayType(_INT)),
    ("replicas", T.ArrayType(_INT)),
    ("epoch_start", _LONG),
    ("leader", _INT),
    ("role", _TEXT),
    ("base", _LONG),
    ("last", _LONG),
    ("from_leo", _LONG),
    ("to", _LONG),
    ("in_isr", _BOOL),
    ("reason", _TEXT),
    ("maximal", T.ArrayType(_INT)),
    ("leos", T.MapType(_TEXT, _LONG)),
    ("rid", _TEXT),
    ("kind", _TEXT),
    ("bes", T.MapType(_TEXT, _LONG)),
    ("error", _TEXT),
    ("follower", _INT),
    ("parts", _PARTS),
    ("acks", _INT),
    ("upto", _LONG),
    ("what", _TEXT),
    ("delete", _BOOL),
    ("target", _INT),
    (CORRUPT, _TEXT),
)

# A line of the event log with the node it came from, its run time, and whether it has a number that no broker has.
EVENTS = T.StructType([*EVENT_LINE.fields, *_struct(("node", _TEXT), ("t_ns", _LONG), ("beyond", _BOOL)).fields])

# One version of one znode, as a transaction made it.
ZNODE = _struct(
    ("node", _TEXT),
    ("zxid", _LONG),
    ("position", _INT),
    ("time_ms", _LONG),
    ("session", _LONG),
    ("op", _TEXT),
    ("path", _TEXT),
    ("version", _INT),
    ("data", _TEXT),
)

# One record batch of one replica, as its segment file holds it. marker: `commit` or `abort`, of a control batch.
BATCH = _struct(
    ("node", _TEXT),
    ("p", _TEXT),
    ("file", _TEXT),
    ("file_position", _LONG),
    ("base", _LONG),
    ("last", _LONG),
    ("epoch", _INT),
    ("producer_id", _LONG),
    ("producer_epoch", _INT),
    ("base_sequence", _INT),
    ("transactional", _BOOL),
    ("control", _BOOL),
    ("marker", _TEXT),
    ("records", _INT),
    ("crc_ok", _BOOL),
    ("digest", _TEXT),
    ("values", T.ArrayType(_LONG)),
    ("problem", _TEXT),
)

# One line of a checkpoint file: kind is `epoch`, `high-watermark`, `log-start` or `recovery-point`.
CHECKPOINT = _struct(
    ("node", _TEXT),
    ("kind", _TEXT),
    ("p", _TEXT),
    ("position", _INT),
    ("epoch", _INT),
    ("offset", _LONG),
    ("problem", _TEXT),
)

LEADER_CHANGE = _struct(("p", _TEXT), ("changed_ns", _LONG), ("leader", _TEXT), ("epoch", _INT), ("returned", _BOOL))
"""When a partition's leader last changed (`coverage.queries.leader_changes`)."""

# What a checker found. `kind` is invalid, unknown or allowed; `rule` names it where something depends on which of a
# checker's rules it was (checkers/verdicts/findings.py); `ops` are indices of invocations in the history.
FINDING = _struct(
    ("checker", _TEXT),
    ("kind", _TEXT),
    ("rule", _TEXT),
    ("p", _TEXT),
    ("offset", _LONG),
    ("value", _LONG),
    ("ops", T.ArrayType(_LONG)),
    ("from_ns", _LONG),
    ("to_ns", _LONG),
    ("detail", _TEXT),
    ("evidence", _TEXT),
    ("lost_epoch", _INT),
    ("missed_epoch", _INT),
)

# A figure of one checker for one partition (null: of the whole run).
FIGURE = _struct(("checker", _TEXT), ("p", _TEXT), ("name", _TEXT), ("value", T.DoubleType()))
