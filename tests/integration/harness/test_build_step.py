"""Tools that build or fetch: what is said of one that fails, or does not end."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.tools import build_step as building
from harness.tools.build_step import BuildFailed, build_step


def test_tool_runs_in_its_folder(tmp_path: Path) -> None:
    build_step("touch", ["touch", "made"], tmp_path, 60)
    assert (tmp_path / "made").exists()


def test_tool_that_fails_is_named_with_the_end_of_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match=r"^the tool exited 3: x{1495}\nthat$"):
        build_step("the tool", ["sh", "-c", "printf %2000s | tr ' ' x; echo; printf that >&2; exit 3"], tmp_path, 60)


def test_tool_that_does_not_end_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match=r"^the tool did not end within 0\.05 s$"):
        build_step("the tool", ["sleep", "60"], tmp_path, 0.05)


def test_tool_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "PAUSE_S", 0.0)
    argv = ["sh", "-c", "echo x >> tried; test $(wc -l < tried) = 3"]
    with pytest.raises(BuildFailed, match="exited 1"):
        build_step("the tool", argv, tmp_path, 60, tries=2)
    build_step("the tool", argv, tmp_path, 60, tries=2)
    assert (tmp_path / "tried").read_text() == "x\nx\nx\n"


def test_tool_that_does_not_end_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "PAUSE_S", -1.0)  # no pause can be so long
    with pytest.raises(BuildFailed, match="did not end"):
        build_step("the tool", ["sleep", "60"], tmp_path, 0.05, tries=3)
