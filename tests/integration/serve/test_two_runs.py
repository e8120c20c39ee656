"""Two runs side by side, in the browser's page and on the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.commands.main import main
from tests.support.served import STAMP, served, write_results, write_run

pytestmark = pytest.mark.guarantee("V6")


def test_page_shows_both_and_says_what_it_cannot_find(tmp_path: Path) -> None:
    write_run(tmp_path, "bad")
    write_results(write_run(tmp_path, "good", seed=8), verdict="valid", checkers={})
    with served(tmp_path) as server:
        page = server.get(f"/compare?a=bad/{STAMP}&b=good/{STAMP}").text
        assert '<th scope="row">seed</th><td>7</td><td>8</td><td>no</td>' in page
        assert '<th scope="row">run</th><td>invalid</td><td>valid</td>' in page
        assert server.get("/compare").status == 200
        (write_run(tmp_path, "torn") / "results.json").write_text("{", encoding="utf-8")
        torn = server.get(f"/compare?a=torn/{STAMP}&b=good/{STAMP}")
        assert (torn.status, "results.json: not JSON" in torn.text) == (404, True)
        for wrong in ("bad", "bad/none", "../bad", "<b>/x"):
            answer = server.get(f"/compare?a={wrong}&b=good/{STAMP}")
            assert (answer.status, "no such run" in answer.text) == (404, True)


def test_command_prints_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = write_run(tmp_path, "bad")
    b = write_run(tmp_path, "recorded", judged=False)
    assert main(["compare", str(a), str(b)]) == 0
    said = capsys.readouterr().out
    assert "settings that differ\n" in said
    assert "lost-write" in said
    assert main(["compare", str(a), str(tmp_path)]) == 254
    assert "not a run's folder" in capsys.readouterr().err
