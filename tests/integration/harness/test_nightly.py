from __future__ import annotations

import json
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Barrier, Thread

import pytest
from junitparser import JUnitXml

from harness.commands import main as cli
from harness.nightly import sources
from harness.nightly.fault_coverage import RUNS_ENOUGH
from harness.nightly.history import open_history
from harness.nightly.jobs import Job, Result
from harness.nightly.night import Settings, run_night
from harness.nightly.retention import Keep, remove_old
from harness.nightly.runner import Runner as AnyRunner
from harness.nightly.runner import Subprocesses
from harness.nightly.sources import read
from harness.plan.toml_source import PlanError
from harness.runs.run_files import load
from harness.runs.store import StoreError, create, write_json
from harness.runs.trouble import INFRASTRUCTURE, LAB, SIGNAL
from tests.support.wait import eventually

pytestmark = pytest.mark.guarantee("H7")


class Runner:
    """Makes a judged run without a cluster; `codes` by (name, seed), 0 otherwise."""

    def __init__(
        self,
        codes: dict[tuple[str, int], int] | None = None,
        die_after: int | None = None,
        found: tuple[str, ...] = (),
        not_fired: Callable[[Job], tuple[str, ...]] = lambda _: (),
        trouble: str = LAB,
    ) -> None:
        self.codes = codes or {}
        self.trouble = trouble
        self.ended = False
        self.not_fired = not_fired
        self.found = found
        self.die_after = die_after
        self.ran: list[tuple[str, int]] = []

    def __call__(self, job: Job, out: Path) -> Result:
        if self.die_after is not None and len(self.ran) == self.die_after:
            raise KeyboardInterrupt
        self.ran.append((job.name, job.seed))
        code = self.codes.get((job.name, job.seed), 0)
        verdict = {0: "valid", 1: "invalid", 2: "unknown"}.get(code)
        run_dir = None
        if verdict is not None:
            run = create(out / "store", job.name)
            checkers = {"lost-write": {"verdict": verdict, "reasons": ["why"], "witnesses": []}}
            write_json(run.results, {"verdict": verdict, "sentence": f"{verdict} <it>", "checkers": checkers})
            run_dir = str(run.path)
        trouble = self.trouble if verdict is None else None
        return Result(code, 1.0, f"{verdict} <it>", run_dir, self.found, self.not_fired(job), trouble)

    def end(self) -> None:
        self.ended = True


@pytest.fixture(autouse=True)
def code_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that is edited while the tests run must not begin another night."""
    monkeypatch.setattr(sources, "run_code", lambda *_what: "same")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "a.toml").write_text('name = "a"\n')
    (folder / "b.toml").write_text('name = "b"\n')
    return folder


def nights(files: list[Path], out: Path, runner: AnyRunner, settings: Settings, said: list[str] | None = None) -> int:
    return run_night(read(files, out), out, settings, runner, say=(said if said is not None else []).append)


def night(files: Path, runner: AnyRunner, *, resume: bool = False, seeds: int = 2) -> int:
    return nights([files], files.parent / "out", runner, Settings(seeds, resume))


@pytest.mark.parametrize(
    ("verdict", "said"), [(None, "no run was recorded"), ("valid", "results.json says valid"), ("invalid", "")]
)
def test_exit_code_without_results_of_the_same_verdict_is_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: str | None, said: str
) -> None:
    """Python itself ends with 1 where a program cannot be started, which would be taken for invalid."""

    store = create(tmp_path / "store", "a")
    if verdict is not None:
        write_json(store.results, {"verdict": verdict, "sentence": "It is.", "checkers": {}})
    monkeypatch.setattr(sys, "executable", program(tmp_path, "echo run: $PWD" if verdict else "true", "exit 1"))
    monkeypatch.chdir(store.path)
    result = Subprocesses(None)(Job("a.toml", "a", "d", 7, "valid"), tmp_path)
    assert result.exit_code == (1 if verdict == "invalid" else 255)
    assert said in result.sentence
    assert result.trouble == (None if verdict == "invalid" else LAB)


def program(folder: Path, *lines: str) -> str:
    """A shell script in the place of Python, which takes its arguments for `highwater test`."""
    path = folder / "program"
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("lines", "trouble", "said"),
    [
        (["kill -KILL $$"], INFRASTRUCTURE, "exit code -9"),
        (["echo no nodes >&2", "exit 255"], INFRASTRUCTURE, "no nodes"),
        (["echo wrong >&2", "exit 254"], LAB, "wrong"),
        (["kill -TERM $$"], SIGNAL, "exit code -15"),
    ],
)
def test_run_without_a_verdict_says_whose_trouble_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], trouble: str, said: str
) -> None:
    monkeypatch.setattr(sys, "executable", program(tmp_path, *lines))
    result = Subprocesses(None)(Job("a.toml", "a", "d", 7, "valid"), tmp_path)
    assert (result.trouble, result.run_dir) == (trouble, None)
    assert said in result.sentence


def test_killed_run_is_found_by_its_seed_and_says_itself_whose_trouble_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two lanes write below one store: a run that was killed did not say where it stands."""
    runs = tmp_path / "store" / "a"
    make = [f"mkdir -p {runs}/{seed} && echo '{{\"seed\": {seed}}}' > {runs}/{seed}/run.json" for seed in (6, 7, 8)]
    monkeypatch.setattr(sys, "executable", program(tmp_path, *make, "kill -KILL $$"))
    result = Subprocesses(None)(Job("a.toml", "a", "d", 7, "valid"), tmp_path)
    assert result.run_dir == str(runs / "7")
    (runs / "7" / "run.json").write_text('{"seed": 7, "trouble": "system"}')
    monkeypatch.setattr(sys, "executable", program(tmp_path, f"echo run: {runs}/7", "exit 255"))
    assert Subprocesses(None)(Job("a.toml", "a", "d", 7, "valid"), tmp_path).trouble == "system"


def test_runs_under_way_are_ended_as_by_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = tmp_path / "began"
    script = tmp_path / "run"
    # Not in the shell's language: where SIGINT was ignored from the start, as in a job in the background, it stays so.
    script.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, signal, sys\n"
        "def end(*_):\n    print('ended', flush=True)\n    sys.exit(255)\n"
        "signal.signal(signal.SIGINT, end)\n"
        f"pathlib.Path({str(began)!r}).touch()\n"
        "while True:\n    signal.pause()\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    runner = Subprocesses(None)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runner, Job("a.toml", "a", "d", 7, "valid"), tmp_path)
        eventually(began.exists, "the run begins")
        runner.end()
        assert running.result(timeout=30).sentence == "ended"
    assert runner(Job("a.toml", "a", "d", 8, "valid"), tmp_path).trouble == SIGNAL


def test_nightly_runs_every_seed_of_every_file_seed_by_seed(files: Path) -> None:
    runner = Runner()
    assert night(files, runner) == 0
    assert runner.ran == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ({("a", 1): 2}, 2),
        ({("a", 1): 2, ("b", 2): 255}, 255),
        ({("a", 1): 2, ("b", 2): 255, ("b", 1): 1}, 1),
        ({("a", 1): 137}, 255),
    ],
)
def test_nightly_exit_code_is_that_of_the_worst(files: Path, codes: dict[tuple[str, int], int], worst: int) -> None:
    assert night(files, Runner(codes)) == worst


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


def test_nightly_expected_invalid_counts_as_success_and_its_absence_does_not(files: Path) -> None:
    (files / "b.toml").write_text('name = "b"\nexpect = "invalid"\n')
    assert night(files, Runner({("b", 1): 1, ("b", 2): 1})) == 0
    assert night(files, Runner({("b", 1): 1})) == 1


def test_nightly_expectation_may_stand_beside_the_run_file(files: Path) -> None:
    (files / "b.expect.toml").write_text('expect = "invalid"\n')
    assert night(files, Runner({("b", 1): 1, ("b", 2): 1})) == 0
    (files / "b.expect.toml").write_text('expects = "invalid"\n')
    with pytest.raises(PlanError, match=r"b.expect.toml:1: expects: unknown key"):
        night(files, Runner())


def test_nightly_expected_finding_of_another_checker_is_no_success(files: Path) -> None:
    (files / "b.toml").write_text('name = "b"\nexpect = "invalid"\nexpect_found = ["lost-write", "lost-tail"]\n')
    codes = {("b", 1): 1, ("b", 2): 1}
    assert night(files, Runner(codes, found=("lost-write",))) == 0
    assert night(files, Runner(codes, found=("inconsistent-offset",))) == 1


def test_nightly_writes_junit_and_a_summary_with_the_worst_first(files: Path) -> None:
    night(files, Runner({("b", 2): 1, ("a", 2): 255}))
    out = files.parent / "out"
    suites = ElementTree.parse(out / "junit.xml").getroot()
    assert [suite.get("name") for suite in suites] == ["a.seed-1", "b.seed-1", "a.seed-2", "b.seed-2"]
    assert [suite.get("failures") for suite in suites] == ["0", "0", "0", "2"]
    assert [suite.get("errors") for suite in suites] == ["0", "0", "1", "0"]
    page = (out / "summary.html").read_text()
    assert "2 valid, 1 invalid, 0 unknown, 1 crash" in page
    assert page.index('class="invalid"') < page.index('class="crash"') < page.index('class="valid"')
    assert "invalid &lt;it&gt;" in page
    assert "<it>" not in page
    assert 'href="store/b/' in page


def test_nightly_files_of_one_name_keep_a_suite_and_a_row_each(files: Path) -> None:
    (files / "b.toml").write_text('name = "a"\n')
    night(files, Runner(), seeds=1)
    out = files.parent / "out"
    suites = JUnitXml.fromfile(str(out / "junit.xml"))
    assert [(suite.name, suite.tests) for suite in suites] == [("a.seed-1", 2), ("a.seed-1", 2)]
    assert (out / "summary.html").read_text().count('<tr class="valid">') == 2


def test_nightly_page_shows_hostile_text_as_text(files: Path) -> None:
    """What a broken run printed last stands in the page, and a folder's name in its links."""
    hostile = "\x1b[31m<script>alert('x')</script> &amp; {{ rows }} {% raw %}"
    files = files.rename(files.parent / 'runs "of" <b>')
    out = files.parent / "out"

    def runner(job: Job, _out: Path) -> Result:
        return Result(0, 1.0, hostile, str(files / job.name), (), ("<i>kill</i>",))

    nights([files], out, Function(runner), Settings(1))
    page = (out / "summary.html").read_text()
    read = PageReader()
    read.feed(page)
    assert not read.tags & {"script", "b", "i", "it"}
    assert sorted(read.links) == [f'../runs "of" <b>/{name}/report.html' for name in "ab"]
    assert [text for text in read.texts if "script" in text] == [hostile] * 2
    assert len([text for text in read.texts if "fired in none of 1 run: <i>kill</i>" in text]) == 2


class Function:
    """A runner that is one function."""

    def __init__(self, carry_out: Callable[[Job, Path], Result]) -> None:
        self._carry_out = carry_out

    def __call__(self, job: Job, out: Path) -> Result:
        return self._carry_out(job, out)

    def end(self) -> None:
        """Nothing is under way."""


class PageReader(HTMLParser):
    """What a browser would take for tags, links and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_nightly_without_a_package_of_the_lab_is_usage_and_says_what_to_install(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "junitparser", None)
    assert cli.main(["nightly", str(files), "--seeds", "1"]) == 254
    assert "nightly needs Python packages that are not installed: junitparser\n" in capsys.readouterr().err


def test_nightly_names_faults_that_fired_in_no_run_of_a_file(files: Path) -> None:
    """Of b each kind fired with one seed or the other."""
    missed = {("a", 1): ("pause", "halves"), ("a", 2): ("halves", "kill"), ("b", 1): ("kill",), ("b", 2): ("pause",)}
    said: list[str] = []
    runner = Runner(not_fired=lambda job: missed[(job.name, job.seed)])
    assert nights([files], files.parent / "out", runner, Settings(2), said) == 0
    (told,) = [text for text in said if "none of" in text]
    assert told.startswith(f"{files / 'a.toml'}: fired in none of 2 runs: halves (")
    assert "a.toml: fired in none of 2 runs: halves" in (files.parent / "out" / "summary.html").read_text()


def test_nightly_of_enough_runs_is_unknown_where_a_fault_never_fired(files: Path) -> None:
    runner = Runner(not_fired=lambda job: ("halves",) if job.name == "a" else ())
    assert night(files, runner, seeds=RUNS_ENOUGH - 1) == 0
    assert night(files, runner, seeds=RUNS_ENOUGH) == 2
    assert night(files, Runner({("b", 1): 1}, not_fired=runner.not_fired), seeds=RUNS_ENOUGH) == 1


def test_nightly_expects_no_faults_of_a_crashed_run(files: Path) -> None:
    runner = Runner({("a", 1): 255}, not_fired=lambda job: () if (job.name, job.seed) == ("a", 1) else ("halves",))
    said: list[str] = []
    nights([files / "a.toml"], files.parent / "out", runner, Settings(2), said)
    assert any("a.toml: fired in none of 1 run: halves" in text for text in said)


def test_nightly_run_file_that_cannot_be_used_is_refused_before_anything_runs(files: Path) -> None:
    (files / "b.toml").write_text('name = "b"\nsed = 1\n')
    runner = Runner()
    with pytest.raises(PlanError, match="sed: unknown key"):
        night(files, runner)
    assert runner.ran == []


def test_nightly_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="holds no run file"):
        nights([tmp_path], tmp_path / "out", Runner(), Settings(1))


MATRIX = """
name = "mine"
seeds = 2

[axis.load.light]
workload.rate = 10

[axis.load.heavy]
workload.rate = 1000

[axis.faults.none]

[axis.faults.network]
faults.kinds = ["isolate", "halves"]
"""


def matrix(folder: Path, text: str = MATRIX) -> Path:
    path = folder / "matrix.toml"
    path.write_text(text)
    return path


def test_matrix_runs_every_combination_and_shows_them_as_a_table(tmp_path: Path) -> None:
    runner = Runner({("heavy-network", 2): 1})
    out = tmp_path / "out"
    due = read([matrix(tmp_path)], out)
    assert due.night.seeds == 2
    assert run_night(due, out, Settings(2), runner, say=lambda _: None) == 1
    names = ["light-none", "light-network", "heavy-none", "heavy-network"]
    assert runner.ran == [(name, seed) for seed in (1, 2) for name in names]
    page = (out / "summary.html").read_text()
    assert '<span class="mark invalid">1 invalid</span> <span class="mark valid">1 valid</span>' in page
    assert "load by faults" in page
    assert 'kinds = ["isolate", "halves"]' in (out / "cells" / "heavy-network.toml").read_text()


def test_matrix_run_that_cannot_be_used_is_refused_with_its_cell(tmp_path: Path) -> None:
    path = matrix(tmp_path, MATRIX.replace("workload.rate = 1000", "workload.rte = 1000"))
    runner = Runner()
    with pytest.raises(PlanError, match=r"matrix.toml: the run of load heavy, faults none: .*rte: unknown key"):
        nights([path], tmp_path / "out", runner, Settings(1))
    assert runner.ran == []


def test_matrix_takes_the_expectation_of_the_file_that_it_begins_with(files: Path) -> None:
    (files / "b.expect.toml").write_text('expect = "invalid"\n')
    path = matrix(files.parent, '[axis.workload.x]\nfile = "runs/b.toml"\n')
    assert nights([path], files.parent / "out", Runner({("x", 1): 1}), Settings(1)) == 0
    assert nights([path], files.parent / "out", Runner(), Settings(1)) == 1


def test_nodes_that_fail_are_tried_again_behind_the_others_and_named(files: Path) -> None:
    class Failing(Runner):
        def __call__(self, job: Job, out: Path) -> Result:
            first = (job.name, job.seed) not in self.ran
            self.codes = {("a", 1): 255 if first else 0}
            return super().__call__(job, out)

    said: list[str] = []
    runner = Failing(trouble=INFRASTRUCTURE)
    assert nights([files], files.parent / "out", runner, Settings(1), said) == 0
    assert runner.ran == [("a", 1), ("b", 1), ("a", 1)]
    assert any("came to no verdict at first: a seed 1" in text for text in said)
    with open_history(files.parent / "out") as history:
        assert [(row.name, row.attempt) for row in history.of_night(1)] == [("a", 1), ("b", 1), ("a", 2)]


@pytest.mark.parametrize(("trouble", "retries", "runs"), [(INFRASTRUCTURE, 2, 3), (INFRASTRUCTURE, 0, 1), (LAB, 2, 1)])
def test_tries_are_bounded_and_for_failing_nodes_alone(files: Path, trouble: str, retries: int, runs: int) -> None:
    runner = Runner({("a", 1): 255}, trouble=trouble)
    assert nights([files / "a.toml"], files.parent / "out", runner, Settings(1, retries=retries)) == 255
    assert len(runner.ran) == runs


def test_lanes_run_side_by_side(files: Path) -> None:
    both = Barrier(2, timeout=30)

    def meet(job: Job, out: Path) -> Result:
        both.wait()
        return Result(0, 1.0, "", None)

    assert nights([files], files.parent / "out", Function(meet), Settings(1, lanes=2)) == 0


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


def test_good_runs_are_removed_by_size_and_failing_ones_never(files: Path) -> None:
    runner = Runner({("b", 1): 1, ("b", 2): 255})
    nights([files], files.parent / "out", runner, Settings(2, keep=Keep(gb=0)))
    out = files.parent / "out"
    assert [path.parent.name for path in out.glob("store/*/2*")] == ["b"]
    with open_history(out) as history:
        assert {row.name: row.removed is None for row in history.of_night(1) if row.seed == 1} == {
            "a": False,
            "b": True,
        }
    assert "<td>" in (out / "summary.html").read_text()


def test_good_runs_are_removed_by_age(files: Path) -> None:
    out = files.parent / "out"
    nights([files / "a.toml"], out, Runner(), Settings(1))
    with open_history(out) as history:
        assert remove_old(history, Keep(days=1), out) == []
        (said,) = remove_old(history, Keep(days=1), out, now_s=time.time() + 90_000)
        assert said.startswith("removed 1 good runs")
        assert remove_old(history, Keep(days=1), out, now_s=time.time() + 90_000) == []
    assert list(out.glob("store/a/*")) == []


def test_history_that_is_none_is_refused_and_left_alone(tmp_path: Path, files: Path) -> None:
    out = files.parent / "out"
    out.mkdir()
    (out / "history.sqlite").write_text("no database, but long enough to be taken for one" * 40)
    with pytest.raises(StoreError, match=r"history.sqlite: cannot be used as a history of nights"):
        night(files, Runner())
    assert (out / "history.sqlite").read_text().startswith("no database")


def test_webhook_gets_the_night_and_a_dead_one_changes_nothing(files: Path) -> None:
    got: list[bytes] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    said: list[str] = []
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/hook"
        assert nights([files], files.parent / "out", Runner({("b", 1): 1}), Settings(1, webhook=url), said) == 1
    assert said[-1] == "webhook: 204"
    posted = json.loads(got[0])
    assert (posted["verdict"], posted["counts"]["valid"], posted["runs"][0]["name"]) == ("invalid", 1, "b")
    assert "| b | 1 | invalid |" in posted["text"]
    assert nights([files], files.parent / "out", Runner(), Settings(1, webhook=url), said) == 0
    assert "did not take the night" in said[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lanes", "0"], "--lanes: 0 is not a whole number from 1 on"),
        (["--minutes", "0"], "--minutes: 0.0 is not a number of minutes from 0.1 on"),
        (["--webhook", "ftp://x"], "--webhook: 'ftp://x' is not an http:// or https:// address"),
        ([], "--seeds: missing"),
        (["--seed", "3"], "unrecognized arguments: --seed 3"),
    ],
)
def test_wrong_options_are_usage(
    files: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files.parent)
    try:
        code = cli.main(["nightly", str(files), *arguments])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 254
    assert said in capsys.readouterr().err


class Buggy(Runner):
    """The system loses a record whenever the second fault of the schedule comes, and its load is longer than 20 s."""

    def __call__(self, job: Job, out: Path) -> Result:
        plan = load(Path(job.file))
        assert plan.faults is not None
        numbers = range(1, 6) if plan.faults.only is None else plan.faults.only
        lost = 2 in numbers and plan.workload.time_limit_s > 20
        self.codes = {(job.name, job.seed): 1 if lost else 0}
        self.found = ("lost-write",) if lost else ()
        result = super().__call__(job, out)
        lines = [
            {"kind": "nemesis", "f": "start", "observed": True, "params_json": json.dumps({"scheduled": number})}
            for number in numbers
        ]
        assert result.run_dir is not None
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines) + '{"kind":"nemesis","f":"sta'
        (Path(result.run_dir) / "history.jsonl").write_text(text)
        return result


def test_failing_run_is_shrunk_to_what_still_fails(files: Path) -> None:
    (files / "a.toml").write_text('name = "a"\n[faults]\nkinds = ["kill", "pause"]\n[workload]\ntime_limit_s = 75\n')
    out, said = files.parent / "out", [""]
    assert nights([files / "a.toml"], out, Buggy(), Settings(1, shrink_minutes=60), said) == 1
    smallest = load(out / "shrunk" / "a-1.toml")
    assert smallest.faults is not None
    assert smallest.faults.only == (2,)
    assert 20 < smallest.workload.time_limit_s < 30
    assert (smallest.workload.producers, smallest.workload.consumers) == (1, 1)
    command = f"highwater test {(out / 'shrunk' / 'a-1.toml').resolve()} --seed 1"
    assert any("still fails with 1 of" in text and text.endswith(command) for text in said)
    (run_dir,) = out.glob("store/a/2*")
    assert json.loads((run_dir / "shrunk.json").read_text())["command"] == command
    assert "smallest run that fails" in (out / "summary.html").read_text()
    assert {path.name for path in (out / "store").iterdir()} == {"a", "latest"}, "smaller runs stand apart"


def test_shrinking_ends_with_its_time_and_leaves_scripts_and_expected_failures_alone(files: Path) -> None:
    (files / "a.toml").write_text('name = "a"\nexpect = "invalid"\n[faults]\n')
    (files / "b.toml").write_text('name = "b"\n[[script]]\ndo = "send"\nnames = ["m1"]\n')
    runner = Runner({("a", 1): 1, ("b", 1): 1}, found=("lost-write",))
    assert nights([files], files.parent / "out", runner, Settings(1, shrink_minutes=60)) == 1
    assert runner.ran == [("a", 1), ("b", 1)]
    (files / "a.toml").write_text('name = "a"\n[faults]\n')
    assert nights([files / "a.toml"], files.parent / "none", Buggy(), Settings(1, shrink_minutes=0)) == 1
    assert not (files.parent / "none" / "shrunk").exists()
