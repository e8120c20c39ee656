"""Histories in Jepsen's own format, written by hand: each is judged by the name that Jepsen has for its anomaly.

All in one Spark pass. Each goes through three forms: as it was written, exported and imported again, and translated to
our history and exported from that, as a run of ours is.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkers.coverage.imported import SHOWN
from checkers.verdicts.verdict import CheckResult
from harness.exchange.edn import to_edn
from harness.exchange.jepsen_export import Exported
from harness.exchange.jepsen_import import Imported, as_map
from harness.exchange.operations import ForeignHistory, read_history
from tests.support.judging import Case, judge_cases

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

FOLDER = Path(__file__).parent

INVALID: dict[str, set[str]] = {
    "valid": set(),
    "lost-write": {"lost-write"},
    "lost-write-between-polls": {"lost-write"},
    "lost-write-at-the-beginning": {"lost-write"},
    "unseen": set(),
    "unknown-offset": set(),
    "unknown-offset-beside-others": set(),
    "lost-write-without-offset": {"lost-write"},
    "lost-write-of-three-without-offset": {"lost-write"},
    "duplicate": {"duplicate"},
    "inconsistent-offsets": {"inconsistent-offset"},
    "aborted-read": {"aborted-read"},
    "aborted-read-of-a-transaction": {"aborted-read"},
    "int-poll-skip": {"int-poll-skip"},
    "int-poll-skip-between-two-polls": {"int-poll-skip"},
    "int-poll-skip-rebalanced": set(),
    "int-nonmonotonic-poll": {"int-nonmonotonic-poll"},
    "poll-skip": {"poll-skip"},
    "poll-skip-subscribed": set(),
    "poll-skip-reassigned": set(),
    "nonmonotonic-poll": {"nonmonotonic-poll"},
    "nonmonotonic-poll-aborted": set(),
    # What was acknowledged stood there before the second was sent.
    "nonmonotonic-send": {"nonmonotonic-send", "real-time-order"},
    "int-nonmonotonic-send": {"nonmonotonic-send"},
    "precommitted-read": {"precommitted-read"},
    "fabricated-value": {"fabricated-value"},
}
UNKNOWN = {
    "unseen",
    "unknown-offset",
    "unknown-offset-beside-others",
    "lost-write-without-offset",
    "lost-write-of-three-without-offset",
}
"""Where `unseen` is not valid."""

FORMS = ("as-written", "again", "translated")
Judged = dict[str, dict[str, CheckResult]]


def _written(path: Path, history: ForeignHistory) -> Path:
    path.write_text("".join(to_edn(as_map(operation)) + "\n" for operation in history.operations))
    return path


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = tmp_path_factory.mktemp("jepsen")
    cases: dict[str, Case] = {}
    for name in INVALID:
        first = read_history(FOLDER / f"{name}.edn")
        again = read_history(_written(folder / f"{name}.edn", first))
        ours = ForeignHistory(Exported(Imported(first).lines()).operations(), {})
        translated = read_history(_written(folder / f"{name}-translated.edn", ours))
        for form, history in zip(FORMS, (first, again, translated), strict=True):
            made = Imported(history)
            cases[f"{name}-{form}"] = Case(made.lines(), partitions=len(made.keys))
    return judge_cases(spark, folder / "judged", cases, transactions=True, imported=True)


def test_every_golden_of_jepsen_is_judged() -> None:
    assert {path.stem for path in FOLDER.glob("*.edn")} == set(INVALID)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", INVALID)
def test_golden_of_jepsen_is_judged_by_its_name(judged: Judged, name: str, form: str) -> None:
    results = judged[f"{name}-{form}"]
    found = {checker for checker in {*SHOWN, "hole"} if results[checker].verdict == "invalid"}
    assert found == INVALID[name], {checker: results[checker].reasons for checker in found ^ INVALID[name]}
    assert (results["unseen"].verdict == "unknown") == (name in UNKNOWN), results["unseen"].reasons


def test_golden_of_jepsen_that_is_valid_shows_what_each_rule_needs(judged: Judged) -> None:
    """Its consumers kept positions of their own; no rule goes without a verdict but for want of transactions."""
    results = judged["valid-as-written"]
    assert {checker for checker in SHOWN if results[checker].verdict != "valid"} == {"precommitted-read"}
    assert results["poll-skip"].counts["own_positions"] > 0


@pytest.mark.parametrize("name", INVALID)
def test_golden_of_jepsen_is_the_same_once_exported_and_imported(name: str, tmp_path: Path) -> None:
    first = read_history(FOLDER / f"{name}.edn")
    again = read_history(_written(tmp_path / "again.edn", first))
    assert Imported(again).lines() == Imported(first).lines()
    assert _written(tmp_path / "twice.edn", again).read_text() == (tmp_path / "again.edn").read_text()
