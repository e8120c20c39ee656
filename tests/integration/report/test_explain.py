"""`highwater explain` on a run's folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.commands.main import main
from tests.support.brokers import ROOT
from tests.support.sample_run import write_sample_run

pytestmark = pytest.mark.guarantee("V6")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "history.jsonl").write_text("")
    return write_sample_run(tmp_path)


def test_explain_tells_the_story_of_the_lost_record(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(run)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for part in ("acknowledged m2 (value 17) at offset 2", "n2 became leader of hw-0", "what it held at 2 was gone"):
        assert part in said


def test_explain_without_series_tells_what_is_left(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "series.json").unlink()
    assert main(["explain", str(run)]) == 0
    assert "acknowledged m2" in capsys.readouterr().out


def test_explain_of_a_run_that_is_not_judged_names_the_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "results.json").unlink()
    assert main(["explain", str(run)]) == 254
    assert "results.json" in capsys.readouterr().err


@pytest.mark.parametrize("most", ["0", "x"])
def test_explain_of_no_findings_is_wrong_usage(run: Path, most: str) -> None:
    with pytest.raises(SystemExit, match="254"):
        main(["explain", str(run), "--most", most])


def test_explain_needs_no_package_of_the_page(run: Path) -> None:
    code = (
        "import sys; sys.modules['jinja2'] = None; from harness.commands.main import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "explain", str(run)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, "acknowledged m2" in done.stdout) == (0, True), done.stderr
