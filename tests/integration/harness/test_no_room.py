"""A store without space: what is said first, and that a run ends at once and keeps what it has."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.commands import main as cli
from harness.nodes.sandbox import probe, sandbox_command
from harness.operations.history import recover
from harness.plan.run_file import parse_plan
from harness.runs import judging
from harness.runs.run import Ended, Options, run
from tests.integration.harness.scripted_run import TEXT, World

FULL_STORE = """
import sys
from pathlib import Path
from harness.commands import main as cli
from tests.support.disks import mount_small
run_file, store = map(Path, sys.argv[1:])
mount_small(store, 65536)
with open(store / "filling", "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
sys.exit(cli.main(["test", str(run_file), "--store", str(store)]))
"""


def test_run_in_a_full_store_is_refused_at_once_with_the_cause_first(tmp_path: Path) -> None:
    missing = probe()
    if missing is not None:
        pytest.skip(missing)
    file, store = tmp_path / "flow.toml", tmp_path / "full"
    file.write_text(TEXT)
    done = subprocess.run(
        sandbox_command([sys.executable, "-c", FULL_STORE, str(file), str(store)]),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr.startswith(f"highwater: no space left on tmpfs ({store}): "), done.stderr
    assert (done.returncode, len(done.stderr.splitlines())) == (254, 1)


@pytest.fixture
def full_after(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """[n]: how many bytes of a history its device still takes."""
    left = [1 << 40]
    write = os.write

    def limited(descriptor: int, data: bytes) -> int:
        if not os.readlink(f"/proc/self/fd/{descriptor}").endswith("history.jsonl"):
            return write(descriptor, data)
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # As a device that fills up does: it takes what it still can.
        taken = write(descriptor, data[: left[0]])
        left[0] -= taken
        return taken

    monkeypatch.setattr("harness.operations.history.os.write", limited)
    return left


def carried_out(tmp_path: Path) -> tuple[Ended, float]:
    plan = parse_plan("flow.toml", TEXT.replace("time_limit_s = 1", "time_limit_s = 600"))
    began_s = time.monotonic()
    ended = run(plan, Options(tmp_path / "store", ("highwater", "test")))
    return ended, time.monotonic() - began_s


def test_run_whose_device_fills_up_ends_at_once_and_says_so_first(
    world: World, tmp_path: Path, full_after: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "analyze", lambda *_args, **_options: pytest.fail("judged"))
    full_after[0] = 20_000
    ended, took_s = carried_out(tmp_path)
    assert took_s < 60
    assert ended.problem is not None
    first, second, last = ended.problem.splitlines()
    assert first.startswith("no space left on ")
    assert str(ended.store.history) in first
    assert second.startswith("the run crashed in phase main: OSError: ")
    assert last == f"`highwater analyze {ended.store.path}` judges what was recorded, once there is space"
    assert (ended.exit_code, ended.judged) == (255, None)
    assert "restart n1" in world.calls, "nodes are healed"
    called = [call for call in world.calls if not call.startswith("restart ")]
    assert called == ["open", "setup", "teardown", "close"], "nodes are gone, nothing copied"
    run_json = ended.store.read_run()
    assert (run_json["finished"], run_json["trouble"], run_json["aborted"]) == (
        False,
        "infrastructure",
        "\n".join((first, second)),
    )
    found = recover(ended.store.history)
    assert found.lines > 20
    assert ended.store.history.stat().st_size == 20_000


def test_analysis_without_space_is_no_verdict_and_says_so_first(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = run(parse_plan("flow.toml", TEXT), Options(tmp_path / "store", (), analysis=False)).store
    mkdir = Path.mkdir

    def full(path: Path, *arguments: object, **options: object) -> None:
        if path.name == "scratch":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        mkdir(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", full)
    assert cli.main(["analyze", str(store.path)]) == 255
    assert capsys.readouterr().err.startswith("highwater: no space left on ")


def test_checkers_that_run_out_of_space_are_said_to(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = run(parse_plan("flow.toml", TEXT), Options(tmp_path / "store", (), analysis=False)).store
    program = tmp_path / "fake" / "checkers" / "__main__.py"
    program.parent.mkdir(parents=True)
    program.with_name("__init__.py").write_text("")
    program.write_text("print('IOException: No space left on device'); raise SystemExit(255)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["analyze", str(store.path)]) == 255
    assert capsys.readouterr().err.startswith("highwater: no space left on ")
