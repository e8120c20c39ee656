"""Files of a run whose brackets are nested without an end, as damage or a hand leaves them: named."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.commands.main import main
from tests.support.sample_run import write_sample_run

pytestmark = pytest.mark.guarantee("V6")

DEEP = '{"a": ' + "[" * 100_000


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "history.jsonl").write_text("")
    return write_sample_run(tmp_path)


@pytest.mark.parametrize("name", ["run.json", "results.json", "series.json"])
@pytest.mark.parametrize(("command", "code"), [("report", 255), ("explain", 254)])
def test_nested_file_is_named(
    run: Path, name: str, command: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / name).write_text(DEEP)
    assert main([command, str(run)]) == code
    said = capsys.readouterr().err
    assert f"{run / name}: " in said
    assert "brackets are nested too deeply" in said
    assert "RecursionError" not in said


@pytest.mark.parametrize(
    ("arguments", "code", "place"),
    [
        (["analyze"], 255, "history.jsonl:2: "),
        (["export", "--to", "jepsen"], 254, "history.jsonl: line 2 cannot be read: "),
    ],
)
def test_nested_line_of_a_history_is_named(
    run: Path, arguments: list[str], code: int, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "history.jsonl").write_text('{"index":0,"time_ns":1,"type":"info"}\n' + DEEP + "\n")
    to = [str(run.parent / "history.edn")] if len(arguments) > 1 else []
    assert main([arguments[0], str(run), *arguments[1:], *to]) == code
    assert f"{run / place}brackets are nested too deeply" in capsys.readouterr().err


def test_files_that_no_checker_writes_are_told_from_an_error_of_ones_own(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "results.json").write_text('{"faults": [[]], "names": []}')
    assert main(["report", str(run)]) == 255
    said = capsys.readouterr().err
    assert f"no report: {run}: run.json, results.json or series.json are not what a run and its checkers write" in said
