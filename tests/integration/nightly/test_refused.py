from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.commands import main as cli
from harness.nightly.night import Settings
from harness.plan.toml_source import PlanError
from tests.support.nights import Runner, night, nights

pytestmark = pytest.mark.guarantee("H7")


def test_nightly_without_a_package_of_the_lab_is_usage_and_says_what_to_install(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "junitparser", None)
    assert cli.main(["nightly", str(files), "--seeds", "1"]) == 254
    assert "nightly needs Python packages that are not installed: junitparser\n" in capsys.readouterr().err


def test_nightly_run_file_that_cannot_be_used_is_refused_before_anything_runs(files: Path) -> None:
    (files / "b.toml").write_text('name = "b"\nsed = 1\n')
    runner = Runner()
    with pytest.raises(PlanError, match="sed: unknown key"):
        night(files, runner)
    assert runner.ran == []


def test_nightly_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="holds no run file"):
        nights([tmp_path], tmp_path / "out", Runner(), Settings(1))


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nodes", "lxc"], "highwater: --nodes: 'lxc' is not one of local, docker, ssh\n"),
        (["--out", "/dev/null"], "highwater: --out: /dev/null cannot be a folder: File exists\n"),
        (["--out", "/dev/null/x"], "highwater: --out: /dev/null/x cannot be a folder: Not a directory\n"),
    ],
)
def test_night_that_no_run_could_be_of_is_refused_before_anything_runs(
    tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.toml"
    file.write_text('name = "a"\n')
    night = tmp_path / "night"
    assert cli.main(["nightly", str(file), "--seeds", "1", "--out", str(night), *words]) == 254
    assert capsys.readouterr().err == said
    assert not (night / "history.sqlite").exists()
