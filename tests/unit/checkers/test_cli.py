"""What the checkers' command line refuses, before anything of Spark is imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers import cli

pytestmark = pytest.mark.guarantee("V7")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            ["r", "--spark-conf", "memory=8g"],
            "--spark-conf: 'memory=8g' is no setting of Spark's; one is spark.executor",
        ),
        (["r", "--spark-conf", "spark.x"], "--spark-conf: 'spark.x' is no setting of Spark's"),
        (["r", "--into", "new"], "--into: goes with a URI; r is a folder, in which results are written"),
        (["s3a://b/r", "--into", "file"], "--into: file is there; should be a folder without a run"),
        (["s3a://b/r", "--into", "run"], "--into: run/run.json is there; should be a folder without a run"),
        (["file://host/r"], "file://host/r: a file URI names no host, but a whole path"),
        (["--listen", "socket", "--spark-conf", "spark.x=1"], "--listen: goes with --many alone"),
        (["--listen", "socket", "--into", "new"], "--listen: goes with --many alone"),
        (["r", "--many"], "--many: goes with --listen alone"),
    ],
)
def test_option_that_says_nothing_is_refused(
    argv: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").touch()
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    assert ended.value.code == cli.USAGE
    assert said in capsys.readouterr().err
