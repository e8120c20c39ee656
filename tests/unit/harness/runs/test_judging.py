from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.runs import judging
from harness.runs.checkers_process import HERE, AnalysisFailed
from harness.runs.recording import Recording

pytestmark = pytest.mark.guarantee("H7")


def _recording(folder: Path) -> Recording:
    """Of a run that has ended, on which nothing is to be seen."""

    def nothing(*_: object) -> None:
        pass

    return cast(
        Recording,
        SimpleNamespace(
            abort=SimpleNamespace(is_set=lambda: False, released=pytest.MonkeyPatch.context),
            stats=SimpleNamespace(operations=1, phase=nothing, jobs=nothing),
            console=SimpleNamespace(say=nothing),
            store=SimpleNamespace(path=folder),
            no_room=False,
            check=nothing,
        ),
    )


@pytest.mark.parametrize("problem", [None, "the run crashed in phase main: n1 is gone"])
def test_run_whose_record_could_not_be_judged_says_so_whatever_else_befell_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str | None
) -> None:
    """What a run that broke off had recorded may prove a loss: nobody looks for that unless told that nobody has."""

    def analyze(*_: object, **__: object) -> None:
        raise AnalysisFailed("no memory")

    monkeypatch.setattr(judging, "analyze", analyze)
    found = judging.judge(_recording(tmp_path), problem, None, lambda: HERE)
    assert (found.judged, found.exit_code) == (None, 255)
    assert found.problem is not None
    assert f"`highwater analyze {tmp_path}` judges it" in found.problem
    assert "could not be judged" in found.problem
    assert (problem or "") in found.problem
    assert found.problem.splitlines()[-1].endswith("judges it")
