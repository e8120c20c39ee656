"""Carrying a plan out: which runs are made, in which order, what a failure leads to, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from benchmarks.bench import Bench
from benchmarks.measure.guard import NotHeld, VoidRun
from benchmarks.plan import Phase, Plan
from benchmarks.process import BenchmarkFailed
from benchmarks.report.resume import RowName
from benchmarks.report.summary import Run
from benchmarks.rows.base import Found, Row
from benchmarks.runner import ROWS_VOID, VOIDS_REPEATED, Course, carry_out
from benchmarks.warm_up import Warmed, WarmUp

A, B = ("Produce", "a"), ("Produce", "b")
COLD = WarmUp(1, 1, 1.0)


@dataclass
class FakeBench:
    """Notes what ran on it."""

    name: str
    ran: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


class FakeRow(Row):
    metrics = ("mb_per_s",)
    targets = ()
    group = "Produce"
    name = ""

    def __init__(
        self, name: str, fails: Callable[[str, int], Exception | None] = lambda *_: None, needs_warm_up: bool = True
    ) -> None:
        self.name = name
        self._fails = fails
        self._needs = needs_warm_up

    @property
    def needs_warm_up(self) -> bool:
        return self._needs

    def run(self, bench: Bench, found: Found) -> None:
        fake = cast(FakeBench, bench)
        fake.ran.append(self.name)
        found["mb_per_s"] = 1.0
        failure = self._fails(fake.name, fake.ran.count(self.name))
        if failure is not None:
            raise failure


class FakeSite:
    def __init__(self, *names: str, broken: bool = False) -> None:
        self.of = {name: FakeBench(name) for name in names}
        self.broken = broken
        self.mends: list[str] = []

    @property
    def benches(self) -> Mapping[str, Bench]:
        return cast(Mapping[str, Bench], self.of)

    def mend(self, system: str) -> bool:
        self.mends.append(system)
        return self.broken


def always(system: str, error: Exception) -> Callable[[str, int], Exception | None]:
    return lambda name, _: error if name == system else None


def carried_out(
    rows: Sequence[Row],
    rounds: int = 1,
    before: Mapping[RowName, Sequence[Run]] | None = None,
    stop_after: int | None = None,
    site: FakeSite | None = None,
    warm_up: WarmUp | None = None,
    warmed: list[str] | None = None,
) -> tuple[Course, FakeSite, list[str]]:
    """What came of it, the systems, and all that was said. warmed: gets who was warmed up."""
    plan = Plan("p", warm_up, (Phase(tuple(rows), rounds, 1),))
    where = site or FakeSite("kafka", "highwater")
    said: list[str] = []
    kept: list[int] = []

    def warm(bench: Bench, wanted: WarmUp, say: Callable[[str], None]) -> Warmed:
        (warmed if warmed is not None else []).append(cast(FakeBench, bench).name)
        return Warmed(1, 1, 0.0, ())

    course = carry_out(
        plan,
        where,
        said.append,
        lambda course: kept.append(sum(len(row.runs) for row in course.rows)),
        before or {},
        lambda: "time is over" if stop_after is not None and max(kept, default=0) >= stop_after else None,
        part=2,
        warm=warm,
    )
    return course, where, said


def runs_of(name: RowName, *systems: str) -> dict[RowName, list[Run]]:
    return {name: [Run(system, {"mb_per_s": 2.0}) for system in systems]}


def test_only_runs_that_are_missing_are_made() -> None:
    before = runs_of(A, "kafka", "highwater") | runs_of(B, "kafka")
    course, site, _ = carried_out([FakeRow("a"), FakeRow("b")], before=before)
    assert course.stopped is None
    assert (site.of["kafka"].ran, site.of["highwater"].ran) == ([], ["b"])
    assert [[run.part for run in row.runs] for row in course.rows] == [[1, 1], [1, 2]]


def test_who_is_first_changes_from_row_to_row_and_from_round_to_round() -> None:
    course, _, _ = carried_out([FakeRow("a")], rounds=3)
    assert [run.system for run in course.rows[0].runs] == [
        "kafka", "highwater", "highwater", "kafka", "kafka", "highwater",
    ]  # fmt: skip
    course, _, _ = carried_out([FakeRow("a"), FakeRow("b")], rounds=2)
    assert [[run.system for run in row.runs] for row in course.rows] == [
        ["kafka", "highwater", "highwater", "kafka"], ["highwater", "kafka", "kafka", "highwater"],
    ]  # fmt: skip


def test_rows_that_come_to_nothing_are_in_the_course_too() -> None:
    course, _, _ = carried_out([FakeRow("a"), FakeRow("b")], stop_after=1)
    assert course.stopped == "time is over"
    assert [(row.name, len(row.runs)) for row in course.rows] == [("a", 1), ("b", 0)]


@pytest.mark.parametrize(
    ("error", "text"),
    [(VoidRun("ISR shrank"), "ISR shrank"), (BenchmarkFailed("no gcc"), "no gcc"), (KeyError("x"), "KeyError: 'x'")],
)
def test_any_failure_makes_a_void_run_that_keeps_its_values_and_is_repeated(error: Exception, text: str) -> None:
    once = FakeRow("a", lambda system, attempt: error if system == "kafka" and attempt == 1 else None)
    course, site, _ = carried_out([once])
    first, second = (run for run in course.rows[0].runs if run.system == "kafka")
    assert (first.void, first.values["mb_per_s"]) == (text, 1.0)
    assert {"foreign_cores", "steal_cores"} <= set(first.values)
    assert second.void is None
    assert site.mends == ["kafka"]


def test_voids_are_made_up_for_a_few_times_only_and_those_of_earlier_parts_do_not_count() -> None:
    before = {A: [Run("kafka", {}, "it was dead")] * 5}
    course, site, _ = carried_out([FakeRow("a", always("kafka", VoidRun("x")))], before=before)
    assert site.of["kafka"].ran == ["a"] * (1 + VOIDS_REPEATED)
    assert site.of["highwater"].ran == ["a"]
    assert course.stopped is None


def test_plan_ends_when_row_after_row_is_void_on_a_system() -> None:
    rows = [FakeRow(name, always("kafka", VoidRun("dead"))) for name in "abcdef"]
    course, site, _ = carried_out(rows)
    assert course.stopped is not None
    assert "3 rows in a row were void on kafka, the last, Produce: c: dead" in course.stopped
    assert len(set(site.of["kafka"].ran)) == ROWS_VOID


def test_loads_that_a_system_does_not_hold_end_nothing_and_need_no_mending() -> None:
    rows = [FakeRow(name, always("kafka", NotHeld("slow"))) for name in "abcdef"]
    course, site, _ = carried_out(rows)
    assert course.stopped is None
    assert site.mends == []
    assert course.rows[0].voids("kafka") == ["slow"] * (1 + VOIDS_REPEATED)


def test_broken_system_is_warmed_up_again_before_the_next_run() -> None:
    warmed: list[str] = []
    once = FakeRow("a", lambda system, attempt: VoidRun("x") if system == "highwater" and attempt == 1 else None)
    carried_out([once], site=FakeSite("kafka", "highwater", broken=True), warm_up=COLD, warmed=warmed)
    assert warmed == ["kafka", "highwater", "highwater"]


def test_all_systems_are_warmed_up_before_the_first_row_that_needs_it() -> None:
    warmed: list[str] = []
    carried_out([FakeRow("a", needs_warm_up=False)], warm_up=COLD, warmed=warmed)
    assert warmed == []
    carried_out([FakeRow("a"), FakeRow("b")], warm_up=COLD, warmed=warmed)
    assert warmed == ["kafka", "highwater"]


def test_doubt_about_a_run_that_counts_is_said_and_looked_into() -> None:
    site = FakeSite("kafka", "highwater")
    site.of["kafka"].doubts.append("row1 was not deleted")
    course, _, said = carried_out([FakeRow("a")], site=site)
    assert "kafka: row1 was not deleted" in said
    assert site.mends == ["kafka"]
    assert all(run.void is None for run in course.rows[0].runs)


def test_system_that_does_not_come_up_again_ends_the_plan() -> None:
    class Dead(FakeSite):
        def mend(self, system: str) -> bool:
            raise BenchmarkFailed("port taken")

    course, _, _ = carried_out([FakeRow("a", always("kafka", VoidRun("x")))], site=Dead("kafka", "highwater"))
    assert course.stopped == "kafka does not come up again: port taken"


def test_interruption_keeps_what_was_measured_and_says_so() -> None:
    def interrupt(system: str, attempt: int) -> Exception | None:
        if system == "highwater":
            raise KeyboardInterrupt
        return None

    kept: list[Course] = []
    plan = Plan("p", None, (Phase((FakeRow("a", interrupt),), 1, 1),))
    with pytest.raises(KeyboardInterrupt):
        carry_out(plan, FakeSite("kafka", "highwater"), lambda _: None, kept.append)
    assert kept[-1].stopped == "it was interrupted"
    assert [run.system for run in kept[-1].rows[0].runs] == ["kafka"]
