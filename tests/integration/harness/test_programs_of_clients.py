"""Programs that clients of a run are, which are fetched from elsewhere: where a run does that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.nodes.sandbox import MARKER

ROOT = Path(__file__).resolve().parents[3]
RUN = ROOT / "examples" / "runs" / "real-clients-java-at-most-once.toml"


def test_they_are_fetched_before_the_run_is_shut_in(tmp_path: Path) -> None:
    """A sandbox has no network: whoever has no jars yet would never get them there."""
    asked = tmp_path / "asked"
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text(f'#!/bin/sh\n[ -e {MARKER} ] && echo inside >> "{asked}" || echo outside >> "{asked}"\n')
    maven.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{maven.parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-m", "harness.commands", "test", str(RUN), "--store", str(tmp_path / "store")]
    ended = subprocess.run(
        [*command, "--no-analysis"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    # This Maven copied nothing, so that the client does not compile.
    assert "javac" in ended.stderr, ended
    assert asked.read_text().split() == ["outside"]
    assert not (tmp_path / "store").exists()
