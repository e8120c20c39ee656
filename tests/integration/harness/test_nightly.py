from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from junitparser import JUnitXml

from harness.commands import main as cli
from harness.commands import nightly as nightly_module
from harness.commands.fault_coverage import RUNS_ENOUGH
from harness.commands.nightly import run_nightly
from harness.commands.nightly_results import Job, Result
from harness.plan.toml_source import PlanError
from harness.runs.store import create, write_json
from tests.support.brokers import ROOT

pytestmark = pytest.mark.guarantee("H7")


class Runner:
    """Makes a judged run without a cluster; `codes` by (name, seed), 0 otherwise."""

    def __init__(
        self,
        codes: dict[tuple[str, int], int] | None = None,
        die_after: int | None = None,
        found: tuple[str, ...] = (),
        not_fired: Callable[[Job], tuple[str, ...]] = lambda _: (),
    ) -> None:
        self.codes = codes or {}
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
        return Result(code, 1.0, f"{verdict} <it>", run_dir, self.found, self.not_fired(job))


@pytest.fixture(autouse=True)
def code_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that is edited while the tests run must not begin another night."""
    monkeypatch.setattr(nightly_module, "run_code", lambda *_what: "same")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "a.toml").write_text('name = "a"\n')
    (folder / "b.toml").write_text('name = "b"\n')
    return folder


def night(files: Path, runner: Runner, *, resume: bool = False, seeds: int = 2) -> int:
    return run_nightly([files], seeds, files.parent / "out", resume=resume, runner=runner, say=lambda _text: None)


@pytest.mark.parametrize(
    ("verdict", "said"), [(None, "no run was recorded"), ("valid", "results.json says valid"), ("invalid", "")]
)
def test_exit_code_without_results_of_the_same_verdict_is_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: str | None, said: str
) -> None:
    """Python itself ends with 1 where a program cannot be started, which would be taken for invalid."""

    def end_with_1(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        if verdict is not None:
            store = create(tmp_path / "store", "a")
            write_json(store.results, {"verdict": verdict, "sentence": "It is.", "checkers": {}})
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", end_with_1)
    result = nightly_module._Subprocess(None)(Job("a.toml", "a", "d", 7, "valid"), tmp_path)
    assert result.exit_code == (1 if verdict == "invalid" else 255)
    assert said in result.sentence


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
    (kept,) = (files.parent / "out" / "nights").iterdir()
    assert '"exit_code": 1' in kept.read_text()


def test_nightly_resume_runs_again_what_other_code_was_judged_by(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        night(files, Runner(die_after=3))
    monkeypatch.setattr(nightly_module, "run_code", lambda *_what: "changed")
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

    run_nightly([files], 1, out, resume=False, runner=runner, say=lambda _text: None)
    page = (out / "summary.html").read_text()
    read = PageReader()
    read.feed(page)
    assert not read.tags & {"script", "b", "i", "it"}
    assert sorted(read.links) == [f'../runs "of" <b>/{name}/report.html' for name in "ab"]
    assert [text for text in read.texts if "script" in text] == [hostile] * 2
    assert len([text for text in read.texts if "fired in none of 1 run: <i>kill</i>" in text]) == 2


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


def test_nightly_imports_nothing_that_draws_charts() -> None:
    """Where plotly is not installed, runs are judged without reports, by night as well."""
    code = "import sys, harness.commands.nightly; sys.exit('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_nightly_names_faults_that_fired_in_no_run_of_a_file(files: Path) -> None:
    """Of b each kind fired with one seed or the other."""
    missed = {("a", 1): ("pause", "halves"), ("a", 2): ("halves", "kill"), ("b", 1): ("kill",), ("b", 2): ("pause",)}
    said: list[str] = []
    runner = Runner(not_fired=lambda job: missed[(job.name, job.seed)])
    assert run_nightly([files], 2, files.parent / "out", resume=False, runner=runner, say=said.append) == 0
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
    run_nightly([files / "a.toml"], 2, files.parent / "out", resume=False, runner=runner, say=said.append)
    assert any("a.toml: fired in none of 1 run: halves" in text for text in said)


def test_nightly_run_file_that_cannot_be_used_is_refused_before_anything_runs(files: Path) -> None:
    (files / "b.toml").write_text('name = "b"\nsed = 1\n')
    runner = Runner()
    with pytest.raises(PlanError, match="sed: unknown key"):
        night(files, runner)
    assert runner.ran == []


def test_nightly_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="holds no run file"):
        run_nightly([tmp_path], 1, tmp_path / "out", resume=False, runner=Runner())
