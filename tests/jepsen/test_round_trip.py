"""Our golden histories through Jepsen's format and back: the same is found, but for what the format cannot carry.

All in one Spark pass.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from checkers.coverage.imported import SHOWN
from checkers.verdicts.verdict import CheckResult
from harness.exchange.edn import to_edn
from harness.exchange.jepsen_export import Exported
from harness.exchange.jepsen_import import Imported, as_map
from harness.exchange.operations import read_history
from tests.golden import make
from tests.golden.black import BLACK_BOX
from tests.golden.topics import MORE_TOPICS
from tests.golden.transactions import TRANSACTIONS
from tests.support.judging import Case, invalid, judge_cases

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

REFUSED = {
    # Of the format each value is of one send, and once in that.
    ("duplicate", "unknown-sent-twice"),
    ("duplicate", "unknown-sent-twice-read-twice"),
    ("duplicate", "unknown-twice-in-a-batch"),
    ("duplicate", "unknown-twice-in-a-batch-read-once"),
    # An offset with no number behind it is no position.
    ("int-nonmonotonic-poll", "bad-far-beyond"),
}
GOLDENS = [
    (anomaly, case)
    for anomaly, case in make.names()
    if anomaly in {*BLACK_BOX, *TRANSACTIONS} & SHOWN
    # Of topics that are made anew nothing is exported.
    and (anomaly, case) not in {*MORE_TOPICS, *REFUSED}
]

_STARTS = ({"lost-write"}, set[str]()), ({"vanished-read"}, set[str]())
_EPOCHS = {"int-nonmonotonic-poll"}, set[str]()
CANNOT: dict[str, tuple[set[str], set[str]]] = {
    # Where a log begins.
    **dict.fromkeys(("lost-write/ok-expired", "lost-write/bad-young"), _STARTS[0]),
    **dict.fromkeys((f"lost-write/{case}" for case in ("ok-deleted", "bad-beyond-deleted")), _STARTS[0]),
    **dict.fromkeys((f"lost-write/{case}" for case in ("bad-before-asked", "bad-beyond-asked")), _STARTS[0]),
    **dict.fromkeys((f"vanished-read/{case}" for case in ("bad-earliest", "ok-expired", "bad-young")), _STARTS[1]),
    **dict.fromkeys((f"vanished-read/{case}" for case in ("ok-deleted", "bad-beyond-deleted")), _STARTS[1]),
    **dict.fromkeys((f"lost-write/{case}" for case in ("ok-jumped", "bad-jumped")), _STARTS[1]),
    "lost-write/bad-passed-over": ({"vanished-read"}, set()),
    # That a drain came to the end.
    "lost-write/bad-without-offset": ({"lost-write"}, set()),
    # Where a poll without records stood, and how far it got.
    **dict.fromkeys((f"lost-write/bad-committed-{by}" for by in ("later", "by-follower")), _STARTS[0]),
    # What is under way at once.
    "nonmonotonic-send/bad-in-order": ({"nonmonotonic-send"}, set()),
    # Ends and watermarks.
    "real-time-order/bad-told": ({"real-time-order"}, set()),
    "real-time-order/bad-watermark": ({"real-time-order"}, set()),
    # When a commit was asked for.
    "precommitted-read/bad": ({"precommitted-read"}, set()),
    # Of which leader epoch a record is.
    "vanished-read/bad-resent": ({"vanished-read"}, set()),
    **dict.fromkeys((f"int-nonmonotonic-poll/bad-{what}" for what in ("epochs-fall", "epoch-to-come")), _EPOCHS),
    # Which client sent it, and hence what it may have sent again by itself.
    "duplicate/ok-by-client": (set(), {"duplicate"}),
    "duplicate/unknown-by-client": (set(), {"duplicate"}),
    "duplicate/unknown-by-client-acked-between": (set(), {"duplicate"}),
    "real-time-order/ok-by-client": (set(), {"duplicate", "real-time-order"}),
    # acks=1, who leads, and hence what may be lost.
    "lost-write/ok-uncommitted": (set(), {"inconsistent-offset", "lost-write"}),
    "lost-write/ok-other-watermark": (set(), {"inconsistent-offset", "lost-write"}),
}
"""What is not found any more, and what is found instead, because the format has no place for it."""

Judged = dict[str, dict[str, CheckResult]]


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = tmp_path_factory.mktemp("round-trip")
    cases: dict[str, Case] = {}
    for anomaly, case in GOLDENS:
        golden = make.read(anomaly, case)
        cases[f"{anomaly}-{case}"] = Case(golden.history, partitions=golden.partitions)
        path = folder / f"{anomaly}-{case}.edn"
        exported = Exported(golden.history).operations()
        path.write_text("".join(to_edn(as_map(operation)) + "\n" for operation in exported))
        made = Imported(read_history(path))
        cases[f"{anomaly}-{case}-back"] = Case(made.lines(), partitions=len(made.keys))
    return judge_cases(spark, folder / "judged", cases, transactions=True)


@pytest.mark.parametrize(("anomaly", "case"), GOLDENS)
def test_round_trip_by_jepsens_format_finds_the_same(judged: Judged, anomaly: str, case: str) -> None:
    here = invalid(judged[f"{anomaly}-{case}"]) & SHOWN
    back = invalid(judged[f"{anomaly}-{case}-back"]) & SHOWN
    lost, found = CANNOT.get(f"{anomaly}/{case}", (set(), set()))
    assert back == (here - lost) | found, (here, back)
    assert lost <= here
    assert not found & here
