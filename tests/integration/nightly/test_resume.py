from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.nightly import sources
from harness.nightly.history import open_history
from harness.nightly.jobs import Job, Result
from harness.nightly.night import Settings, run_night
from harness.nightly.sources import read
from harness.runs.trouble import SIGNAL
from tests.support.nights import Function, Runner, night, nights
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("H7")


def test_nightly_killed_goes_on_where_it_stopped(files: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        night(files, Runner(die_after=3))
    second = Runner()
    assert night(files, second, resume=True) == 0
    assert second.ran == [("b", 2)]


def test_nightly_resume_counts_what_was_done_before(files: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        night(files, Runner({("a", 1): 1}, die_after=3))
    second = Runner()
    assert night(files, second, resume=True) == 1
    assert second.ran == [("b", 2)]


def test_nightly_after_a_whole_night_begins_a_new_one_and_keeps_the_old(files: Path) -> None:
    night(files, Runner({("a", 1): 1}))
    second = Runner()
    assert night(files, second, resume=True) == 0
    assert len(second.ran) == 4
    with open_history(files.parent / "out") as history:
        assert [one.exit_code for one in history.nights("nightly")] == [1, 0]
        first, last = ([row.result.exit_code for row in history.of_night(one)] for one in (1, 2))
    assert (first, last) == ([1, 0, 0, 0], [0, 0, 0, 0])


def test_nightly_resume_runs_again_what_other_code_was_judged_by(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        night(files, Runner(die_after=3))
    monkeypatch.setattr(sources, "run_code", lambda *_what: "changed")
    second = Runner()
    night(files, second, resume=True)
    assert len(second.ran) == 4


def test_nightly_resume_tries_crashed_runs_again(files: Path) -> None:
    assert night(files, Runner({("a", 2): 255})) == 255
    second = Runner()
    assert night(files, second, resume=True) == 0
    assert second.ran == [("a", 2)]


def test_nightly_resume_runs_a_changed_file_again(files: Path) -> None:
    night(files, Runner())
    (files / "b.toml").write_text('name = "b"\n# another\n')
    second = Runner()
    night(files, second, resume=True)
    assert second.ran == [("b", 1), ("b", 2)]


def test_nightly_without_resume_runs_everything_again(files: Path) -> None:
    night(files, Runner())
    second = Runner()
    night(files, second)
    assert len(second.ran) == 4


def test_night_without_time_left_says_what_it_did_not_run_and_goes_on_later(files: Path) -> None:
    out = files.parent / "out"
    now_s = 0.0

    def take_a_minute(job: Job, _out: Path) -> Result:
        nonlocal now_s
        now_s += 60
        return Result(0, 60.0, "", None)

    due, said, runner = read([files], out), [""], Function(take_a_minute)
    settings = Settings(2, resume=True, minutes=2.5)
    assert run_night(due, out, settings, runner, say=said.append, clock_s=lambda: now_s) == 0
    assert any("not run: 2 of 4" in text for text in said)
    assert run_night(due, out, settings, runner, say=said.append, clock_s=lambda: now_s) == 0
    assert json.loads((out / "night.json").read_text())["not_run"] == []
    with open_history(out) as history:
        assert [one.not_run for one in history.nights("nightly")] == [0]


def test_night_in_which_nothing_ran_is_unknown(files: Path) -> None:
    out = files.parent / "out"
    settings = Settings(1, minutes=1.0)
    ticks = iter(range(0, 10_000, 100))
    assert run_night(read([files], out), out, settings, Runner(), say=lambda _: None, clock_s=lambda: next(ticks)) == 2


def test_fresh_seeds_are_no_earlier_nights(files: Path) -> None:
    runner = Runner()
    for _ in range(2):
        nights([files / "a.toml"], files.parent / "out", runner, Settings(2, resume=True, fresh_seeds=True))
    assert runner.ran == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]


def test_interrupted_night_ends_its_runs_keeps_what_was_done_and_begins_nothing(files: Path) -> None:
    class Interrupted(Runner):
        def __call__(self, job: Job, out: Path) -> Result:
            if job.name == "b":
                eventually(lambda: self.ended, "the night ends its runs")
                return Result(255, 1.0, "aborted by SIGINT", None, trouble=SIGNAL)
            return super().__call__(job, out)

    out, runner = files.parent / "out", Interrupted()

    def interrupt(_text: str) -> None:
        if not runner.ended:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_night(read([files], out), out, Settings(2, lanes=2), runner, say=interrupt)
    assert runner.ran == [("a", 1)]
    page = (out / "summary.html").read_text()
    assert "1 run: 1 valid" in page
    assert "not run: 3 of 4" in page
    second = Runner()
    assert night(files, second, resume=True) == 0
    assert ("a", 1) not in second.ran
    assert len(second.ran) == 3
