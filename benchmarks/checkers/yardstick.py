"""`python -m benchmarks.checkers.yardstick FOLDER OUT`: the durability questions of a history, asked of DuckDB.

The same Parquet tables, and for QUESTIONS the same findings; nothing of allowances, figures, or requests alone. Writes
OUT: seconds, and every finding.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

TABLES = ("ops", "sends", "requests", "polls")
MEMORY = "6GB"

BY_VALUE = """
CREATE TABLE by_value AS
WITH reads AS (
  SELECT p, value, count(*) AS n_reads, min("offset") AS low, max("offset") AS high, min(complete_ns) AS first_ns,
         bool_and(intact) AS intact
  FROM polls GROUP BY p, value)
SELECT coalesce(sends.p, reads.p) AS p, coalesce(sends.value, reads.value) AS value, sends.op, sends.nth, sends."of",
       sends.process, sends.outcome, sends."offset" AS acked, sends.invoke_ns, sends.complete_ns,
       coalesce(n_reads, 0) AS n_reads, low, high, first_ns, intact, coalesce(sends."offset", low) AS place,
       least(CASE WHEN sends."offset" IS NOT NULL THEN sends.complete_ns END, first_ns) AS effective_ns
FROM sends FULL JOIN reads ON sends.p = reads.p AND sends.value = reads.value
"""
BY_OFFSET = """
CREATE TABLE by_offset AS
SELECT p, "offset", min(value) AS low, max(value) AS high, bool_or(is_read) AS is_read,
       min(CASE WHEN is_read THEN complete_ns END) AS first_ns
FROM (SELECT p, acked AS "offset", value, complete_ns, false AS is_read FROM by_value WHERE acked IS NOT NULL
      UNION ALL SELECT p, "offset", value, complete_ns, true FROM polls)
GROUP BY p, "offset"
"""
COVERED = """
CREATE TABLE covered AS
WITH asked AS (SELECT p, "position" AS a, next_position AS b FROM requests
               WHERE f = 'poll' AND outcome = 'ok' AND next_position > "position"),
     opened AS (SELECT *, CASE WHEN a > coalesce(max(b) OVER (PARTITION BY p ORDER BY a, b
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -1) THEN 1 ELSE 0 END AS opens FROM asked),
     islands AS (SELECT *, sum(opens) OVER (PARTITION BY p ORDER BY a, b) AS island FROM opened)
SELECT p, min(a) AS a, max(b) AS b FROM islands GROUP BY p, island
"""
GAPS = """
CREATE TABLE missed AS
WITH gappy AS (SELECT p, op, "position" AS a, next_position AS b, invoke_ns FROM requests
               WHERE f = 'poll' AND outcome = 'ok' AND in_range < next_position - "position")
SELECT g.p, g.op, o."offset", o.low AS value, o.first_ns < g.invoke_ns AS vanished
FROM gappy g JOIN by_offset o ON o.p = g.p AND o."offset" >= g.a AND o."offset" < g.b AND o.is_read
WHERE NOT EXISTS (SELECT 1 FROM polls r WHERE r.op = g.op AND r."offset" = o."offset")
"""
QUESTIONS = {
    "fabricated-value": """
SELECT p, low, value FROM by_value WHERE n_reads > 0 AND (op IS NULL OR NOT intact OR first_ns < invoke_ns)""",
    "aborted-read": "SELECT p, low, value FROM by_value WHERE n_reads > 0 AND outcome = 'fail'",
    "duplicate": """
SELECT p, greatest(high, acked), value FROM by_value WHERE least(low, acked) <> greatest(high, acked)""",
    "inconsistent-offset": """
SELECT o.p, o."offset", arg_min(s.value, s.complete_ns) FROM by_offset o
JOIN (SELECT p, acked AS "offset", value, complete_ns FROM by_value WHERE acked IS NOT NULL
      UNION ALL SELECT p, "offset", value, complete_ns FROM polls) s ON s.p = o.p AND s."offset" = o."offset"
WHERE o.low <> o.high GROUP BY ALL""",
    "lost-write": """
SELECT v.p, acked, value FROM by_value v JOIN covered c ON c.p = v.p AND acked >= c.a AND acked < c.b
WHERE n_reads = 0""",
    "lost-tail": """
SELECT v.p, acked, value FROM by_value v JOIN (SELECT p, max(b) AS reach FROM covered GROUP BY p) c ON c.p = v.p
WHERE n_reads = 0 AND acked >= reach""",
    "torn-batch": """
SELECT v.p, s.base + v.nth, v.value FROM by_value v
JOIN (SELECT p, op, min(low - nth) AS base FROM by_value WHERE n_reads > 0 AND low = high AND "of" > 1
      GROUP BY p, op HAVING min(low - nth) = max(low - nth)) s ON s.p = v.p AND s.op = v.op
JOIN covered c ON c.p = v.p AND s.base + v.nth >= c.a AND s.base + v.nth < c.b
WHERE v.n_reads = 0 AND v.acked IS NULL AND v.outcome <> 'fail'""",
    "int-nonmonotonic-send": """
SELECT p, arg_max(low, low - nth), arg_max(value, low - nth) FROM by_value
WHERE n_reads > 0 AND low = high AND "of" > 1 GROUP BY p, op HAVING min(low - nth) <> max(low - nth)""",
    "vanished-read": 'SELECT p, "offset", value FROM missed WHERE vanished',
    "int-poll-skip": 'SELECT p, "offset", value FROM missed WHERE NOT vanished',
    "hole": """
SELECT p, "position", NULL FROM requests
WHERE f = 'poll' AND outcome = 'ok' AND next_position - "position" - in_range > 0""",
    "real-time-order": """
SELECT p, place, value FROM (
  SELECT *, min(effective_ns) OVER (PARTITION BY p ORDER BY place DESC
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above_ns
  FROM by_value WHERE op IS NOT NULL AND place IS NOT NULL)
WHERE above_ns < invoke_ns""",
    "nonmonotonic-send": """
SELECT p, acked, value FROM (
  SELECT p, value, acked, kind, max(CASE WHEN kind = 1 THEN acked END)
    OVER (PARTITION BY p, process ORDER BY at_ns, kind) AS previous
  FROM (SELECT p, process, value, acked, invoke_ns AS at_ns, 0 AS kind FROM by_value WHERE acked IS NOT NULL
        UNION ALL SELECT p, process, value, acked, complete_ns, 1 FROM by_value WHERE acked IS NOT NULL))
WHERE kind = 0 AND previous >= acked""",
    "confluent-repeat": """
SELECT p, "offset", max(CASE WHEN reader = 'wire' THEN value END) FROM polls WHERE phase LIKE 'drain%'
GROUP BY p, phase, node, "offset"
HAVING count_if(reader = 'wire') = 0 OR count_if(reader = 'confluent') = 0
    OR min(CASE WHEN reader = 'wire' THEN value END) <> min(CASE WHEN reader = 'confluent' THEN value END)""",
}
"""Checker → (p, offset, value) of its findings."""


def main(argv: Sequence[str] | None = None) -> None:
    """Ask all of one folder."""
    import duckdb

    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkers.yardstick")
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args(argv)
    began = time.monotonic()
    findings = []
    with tempfile.TemporaryDirectory(prefix="highwater-duckdb-") as scratch:
        connection = duckdb.connect(str(Path(scratch) / "tables.duckdb"))
        connection.execute(f"SET threads = {arguments.threads}")
        connection.execute(f"SET memory_limit = '{MEMORY}'")
        for table in TABLES:
            files = arguments.folder / table / "*.parquet"
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}', union_by_name = true)")
        for statement in (BY_VALUE, BY_OFFSET, COVERED, GAPS):
            connection.execute(statement)
        for checker, question in QUESTIONS.items():
            for p, offset, value in connection.execute(question).fetchall():
                findings.append({"checker": checker, "kind": "invalid", "p": p, "offset": offset, "value": value})
        connection.close()
    seconds = time.monotonic() - began
    arguments.out.write_text(json.dumps({"findings": findings, "judge_s": seconds}), encoding="utf-8")


if __name__ == "__main__":
    main()
