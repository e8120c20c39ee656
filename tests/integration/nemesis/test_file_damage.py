from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from nemesis.faults.file_damage import PROGRAM


def damage(root: Path, how: str, what: str, seed: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(root), "hw", how, what, seed], check=True, capture_output=True, text=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def fill(root: Path, topic_partition: str, *bases: int) -> None:
    folder = root / topic_partition
    folder.mkdir(parents=True)
    for base in bases:
        for suffix in (".log", ".index"):
            (folder / f"{base:020d}{suffix}").write_bytes(b"x" * 100)


def test_oldest_segment_is_the_first_of_a_log_that_has_several(tmp_path: Path) -> None:
    fill(tmp_path, "hw-0", 0, 7, 19)
    fill(tmp_path, "hw-1", 0)
    fill(tmp_path, "other-0", 0, 5)
    for seed in range(5):
        done = damage(tmp_path, "remove", "oldest-segment", str(seed))
        if seed == 0:
            assert done["file"] == f"hw-0/{0:020d}.log"
            assert done["seen"]
        elif seed == 1:
            assert done["file"] == f"hw-0/{7:020d}.log"
        else:
            assert done["file"] is None, "the active segment is not the oldest of several"
    assert (tmp_path / "hw-1" / f"{0:020d}.log").exists()
    assert (tmp_path / "other-0" / f"{0:020d}.log").exists()
