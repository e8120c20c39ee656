from __future__ import annotations

from pathlib import Path

import pytest

from harness.nightly import sources


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
