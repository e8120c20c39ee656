"""How long checkers may take, and how far they say to be; what is left of those that took too long."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.commands import main as cli
from harness.runs import analysis
from harness.runs.analysis import analyze
from harness.runs.checkers_process import AnalysisFailed, read_jobs
from harness.runs.store import RunStore
from tests.integration.harness.checkers_stand_in import WRITE
from tests.support.wait import eventually

BEGUN = 'open(run + "/begun", "w").close()\n'


@pytest.fixture
def once_begun(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits begin when a program has carried out BEGUN: how long Python's start takes is the machine's matter."""
    start: Any = subprocess.Popen

    def begun(*command: object, **options: object) -> object:
        process = start(*command, **options)
        eventually((store.path / "begun").exists, "the program begins", timeout_s=60)
        return process

    monkeypatch.setattr(subprocess, "Popen", begun)


@pytest.mark.usefixtures("once_begun")
def test_analyze_too_long_is_ended_with_its_children(store: RunStore, checkers: object) -> None:
    checkers('open(run + "/pid", "w").write(str(os.getpid()))\n' + BEGUN + "time.sleep(60)")  # type: ignore[operator]
    before = store.history.read_bytes()
    with pytest.raises(AnalysisFailed, match=r"limits\.analysis_s = 2 s"):
        analyze(store, 2)
    assert store.history.read_bytes() == before
    pid = int((store.path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_analyze_limit_grows_with_the_history(
    store: RunStore, checkers: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_one_line = analysis.limit_for(store.history)
    with store.history.open("a") as file:
        file.writelines(f'{{"index":{number}}}\n' for number in range(1, 100_001))
    assert analysis.limit_for(store.history) == of_one_line + 2000
    checkers("time.sleep(60)")  # type: ignore[operator]
    monkeypatch.setattr(analysis, "LEAST_LIMIT_S", 1.0)
    monkeypatch.setattr(analysis, "LIMIT_PER_LINE_S", 0.00001)
    with pytest.raises(AnalysisFailed, match="did not end within the limit by the history's size = 2 s"):
        analyze(store, None)


PROGRESS = """
path = sys.argv[sys.argv.index("--progress") + 1]
def told(done, of):
    open(path + ".part", "w").write(f"{done} {of}\\n")
    os.replace(path + ".part", path)
"""


@pytest.mark.usefixtures("once_begun")
def test_analyze_that_gets_jobs_done_is_not_ended_by_the_limit_of_the_history(
    store: RunStore, checkers: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = PROGRESS + BEGUN + "for done in range(5): told(done, 5); time.sleep(1)\n"
    checkers(body + WRITE.format(verdict="valid", code=0))  # type: ignore[operator]
    monkeypatch.setattr(analysis, "LEAST_LIMIT_S", 3.0)
    heard: list[tuple[int, int]] = []
    assert analyze(store, None, on_jobs=lambda done, of: heard.append((done, of))).verdict == "valid"
    assert heard[-1] == (4, 5)
    assert heard == sorted(set(heard)), "each is told once"


@pytest.mark.usefixtures("once_begun")
def test_analyze_that_stops_getting_jobs_done_is_ended_and_twice_its_time_is_named(
    store: RunStore, checkers: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkers(PROGRESS + BEGUN + "told(1, 0); time.sleep(1.2); told(2, 5); time.sleep(60)")  # type: ignore[operator]
    monkeypatch.setattr(analysis, "LEAST_LIMIT_S", 4.0)
    with pytest.raises(AnalysisFailed, match=r"within the limit by the history's size = 4 s of job 2 of 5") as failed:
        analyze(store, None)
    said = analysis.command_again(store, failed.value)
    assert int(said.rpartition(" ")[2]) >= 10, "it took five seconds at least"


def test_analyze_limit_that_somebody_set_ends_also_what_gets_jobs_done(store: RunStore, checkers: object) -> None:
    checkers(PROGRESS + "for done in range(600): told(done, 900); time.sleep(0.1)")  # type: ignore[operator]
    with pytest.raises(AnalysisFailed, match=r"within limits\.analysis_s = 3 s; see") as failed:
        analyze(store, 3)
    assert analysis.command_again(store, failed.value).endswith(" --time-limit 6")


@pytest.mark.parametrize("text", ["", "23", "23 61 1", "many 61"])
def test_read_jobs_of_something_else_is_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "progress").write_text(text)
    assert read_jobs(tmp_path / "progress") is None
    assert read_jobs(tmp_path / "none") is None


def test_cli_analyze_says_how_far_it_is(
    store: RunStore, checkers: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = PROGRESS + "told(1, 0); time.sleep(1.2); told(2, 5); time.sleep(1.2)\n"
    checkers(body + WRITE.format(verdict="valid", code=0))  # type: ignore[operator]
    monkeypatch.setattr("harness.commands.analyze.JOBS_EVERY_S", 0.0)
    assert cli.main(["analyze", str(store.path)]) == 0
    assert "analysis: 2 of 5 jobs" in capsys.readouterr().out.splitlines()


def test_cli_analyze_too_long_names_the_command_with_more_time(
    store: RunStore, checkers: object, capsys: pytest.CaptureFixture[str]
) -> None:
    checkers("time.sleep(60)")  # type: ignore[operator]
    store.update_run(limits={"analysis_s": 86_400.0})
    assert cli.main(["analyze", str(store.path), "--time-limit", "1"]) == 255
    said = capsys.readouterr().err
    assert "the checkers did not end within --time-limit = 1 s" in said
    assert f"`highwater analyze {store.path} --time-limit 2` judges it" in said
    assert cli.main(["analyze", str(store.path), "--time-limit", "0"]) == 254


@pytest.mark.usefixtures("once_begun")
def test_analyze_leaves_no_temporary_file_even_of_checkers_that_had_to_be_killed(
    store: RunStore, checkers: object
) -> None:
    (store.path / "scratch").mkdir()
    (store.path / "scratch" / "of-a-killed-analysis").touch()
    write = "import tempfile; folder = tempfile.mkdtemp(); open(run + '/made', 'w').write(folder)\n"
    checkers(write + BEGUN + "time.sleep(60)")  # type: ignore[operator]
    with pytest.raises(AnalysisFailed):
        analyze(store, 2)
    assert (store.path / "made").read_text().startswith(str(store.path / "scratch"))
    assert not (store.path / "scratch").exists()
