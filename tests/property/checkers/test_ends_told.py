"""Of acknowledgements by the million a request is held against few, and against none that would have shown more."""

from __future__ import annotations

from random import Random

import pytest
from pyspark.sql import SparkSession

from checkers.black_box.ends_told import thinned
from tests.support.judging import pyspark_sockets

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

SECOND_NS = 1_000_000_000
Acked = tuple[str, int, int, int, int]
"""p, epoch, op, complete_ns, end."""


def _acked(random: Random) -> list[Acked]:
    """Ends rise with time, but for some; some instants are a second's first and last."""
    made = []
    for op in range(400):
        at_ns = random.choice((random.randrange(40 * SECOND_NS), SECOND_NS * random.randrange(40)))
        end = max(1, at_ns // 10_000_000 + random.choice((0, 0, -200, 50)))
        made.append((random.choice("ab"), random.randrange(3), op, at_ns, end))
    return made


def _asked(random: Random) -> list[tuple[str, int]]:
    """Of one partition often, of the other in a few seconds."""
    of_a = [("a", random.randrange(40 * SECOND_NS)) for _ in range(30)]
    return of_a + [("b", second * SECOND_NS + nth) for second in (0, 3, 39) for nth in (0, 1, SECOND_NS - 1)]


def _shown(acked: list[Acked], p: str, at_ns: int) -> dict[int, tuple[int, int]]:
    """Epoch → (end, op): the furthest that was acknowledged before."""
    found: dict[int, tuple[int, int]] = {}
    for of, epoch, op, complete_ns, end in acked:
        if of == p and complete_ns < at_ns:
            found[epoch] = max(found.get(epoch, (0, 0)), (end, op))
    return found


def test_few_acknowledgements_show_a_request_what_all_show(spark: SparkSession) -> None:
    random = Random(11)
    acked, asked = _acked(random), _asked(random)
    with pyspark_sockets():
        frame = spark.createDataFrame(acked, "p string, epoch int, op bigint, complete_ns bigint, end bigint")
        rows = thinned(frame, spark.createDataFrame(asked, "p string, at_ns bigint")).collect()
        none = thinned(frame, spark.createDataFrame([], "p string, at_ns bigint")).count()
    left = [(row.p, row.epoch, row.op, row.complete_ns, row.end) for row in rows]
    assert set(left) < set(acked)
    assert none <= 2 * 3 * 40
    for p, at_ns in asked:
        assert _shown(left, p, at_ns) == _shown(acked, p, at_ns)
