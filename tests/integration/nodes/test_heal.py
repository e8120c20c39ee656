"""kill -9 of a run, then `heal`: nothing is left. And what heal must not touch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from harness.commands import heal as heal_command
from harness.commands.heal import heal
from harness.commands.heal import main as heal_main
from harness.nodes.docker_engine import ENGINE_URL, OwnEngine, cgroup_name
from harness.nodes.docker_image import NodeImage
from harness.nodes.docker_nodes import LABEL
from harness.nodes.factory import make_nodes
from harness.nodes.manifest import Manifest, manifests
from harness.tools.java import cache_folder
from tests.support.processes import command_lines

pytestmark = pytest.mark.guarantee("H5")

ROOT = Path(__file__).resolve().parents[3]

# A run that opens its nodes, starts a daemon, cuts a link, and never ends by itself.
RUN = """
import sys, time
from pathlib import Path
from harness.nodes import firewall
from harness.nodes.base import DaemonSpec
from harness.nodes.factory import enter_sandbox, make_nodes
kind, run_dir, source, token = sys.argv[1:]
enter_sandbox(kind)
nodes = make_nodes(kind, 2, 0, run_dir=Path(run_dir), source=Path(source))
nodes.open()
node = nodes.nodes["n1"]
node.start(DaemonSpec("sleeper", (node.python, "-c", "import time; time.sleep(600)", token + "-daemon")))
firewall.cut(node, [nodes.nodes["n2"].address])
print("open", flush=True)
time.sleep(600)
"""


def killed_run(kind: str, run_dir: Path, source: Path, how: signal.Signals = signal.SIGKILL) -> None:
    """Start a run, wait until its nodes are open, kill it, and see that no process is left."""
    run_dir.mkdir()
    token = f"token-{uuid.uuid4()}"
    command = [sys.executable, "-c", RUN, kind, str(run_dir), str(source), token]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "open\n"
        assert command_lines(f"{token}-daemon")
        run.send_signal(how)
        run.wait(30)
    deadline = time.monotonic() + 20
    while command_lines(token):
        assert time.monotonic() < deadline, command_lines(token)
        time.sleep(0.05)


@pytest.mark.parametrize("kind", ["local", pytest.param("ssh", marks=pytest.mark.ssh)])
def test_heal_killed_run_leaves_nothing(kind: str, state: Path, source: Path, tmp_path: Path) -> None:
    killed_run(kind, tmp_path / "run", source)
    assert len(list(manifests())) == 1
    assert (tmp_path / "run" / "nodes" / "n1").exists()
    report = heal()
    assert report.left == []
    assert list(state.iterdir()) == []
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.docker
def test_heal_killed_run_with_an_engine_of_its_own_leaves_nothing(
    state: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NodeImage().build_rootfs()
    cache = tmp_path / "cache" / "highwater"
    cache.mkdir(parents=True)
    (cache / "images").symlink_to(cache_folder() / "images")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/no-engine.sock")
    killed_run("docker", tmp_path / "run", source)
    assert (cache / "docker" / "engine-0" / "data").exists()
    assert list(Path("/sys/fs/cgroup").glob(f"*/{cgroup_name(cache / 'docker' / 'engine-0')}")) != []
    assert heal().left == []
    assert not (cache / "docker" / "engine-0" / "data").exists()
    assert list(Path("/sys/fs/cgroup").glob(f"*/{cgroup_name(cache / 'docker' / 'engine-0')}")) == []
    assert list(state.iterdir()) == []
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.docker
@pytest.mark.sandbox
def test_heal_killed_run_on_an_engine_that_goes_on_removes_its_containers(
    state: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = OwnEngine()
    client = engine.start()
    try:
        monkeypatch.setenv("DOCKER_HOST", ENGINE_URL)
        (tmp_path / "run").mkdir()
        nodes = make_nodes("docker", 1, 0, run_dir=tmp_path / "run", source=source)
        nodes.open()
        ((file, content),) = manifests()
        assert "engine_folder" not in content
        filters = {"label": content["label"]}
        assert content["label"].startswith(LABEL)
        assert len(client.containers.list(filters=filters)) == 1
        content["owner"]["boot_id"] = "an earlier one"
        file.write_text(json.dumps(content))
        report = heal()
        assert report.left == []
        assert client.containers.list(all=True, filters=filters) == []
        assert client.networks.list(filters=filters) == []
        assert not file.exists()
    finally:
        engine.stop()


def test_heal_live_run_is_not_touched(state: Path, tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    Manifest("local", tmp_path, [str(tmp_path / "nodes")]).write()
    report = heal()
    assert len(report.alive) == 1
    assert (report.done, report.left) == ([], [])
    assert (tmp_path / "nodes").exists()


def test_heal_owner_whose_pid_another_process_has_is_dead(state: Path, tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    Manifest("local", tmp_path, [str(tmp_path / "nodes")], owner=(os.getpid(), 12345)).write()
    assert heal().left == []
    assert not (tmp_path / "nodes").exists()


def test_heal_manifest_of_an_earlier_boot_is_dead(state: Path, tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    manifest = Manifest("local", tmp_path, [str(tmp_path / "nodes")])
    manifest.content["owner"]["boot_id"] = "another"
    manifest.write()
    assert heal().left == []
    assert not (tmp_path / "nodes").exists()


def test_heal_process_that_lives_in_a_dead_runs_folder_is_reported(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heal_command, "ENDING_S", 0.1)
    folder = tmp_path / "nodes"
    folder.mkdir()
    manifest = Manifest("local", tmp_path, [str(folder)], owner=(1, 1))
    manifest.write()
    with subprocess.Popen(["sleep", "600"], cwd=folder) as sleeper:
        assert heal_main() == 1
        assert f"LEFT: process {sleeper.pid}" in capsys.readouterr().out
        assert manifest.exists()
        sleeper.kill()
    assert heal_main() == 0
    assert not manifest.exists()


def test_heal_process_that_is_still_ending_is_waited_for(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "nodes"
    folder.mkdir()
    manifest = Manifest("local", tmp_path, [str(folder)], owner=(1, 1))
    manifest.write()
    with subprocess.Popen(["sleep", "600"], cwd=folder) as sleeper:

        def end_it(_seconds: float) -> None:
            sleeper.kill()
            # Without a limit: with one, wait itself sleeps between its looks, which is this function.
            sleeper.wait()

        monkeypatch.setattr(time, "sleep", end_it)
        left = heal().left
        seen_alive = sleeper.returncode is not None
        sleeper.kill()
    assert (left, seen_alive) == ([], True)
    assert not manifest.exists()


def test_heal_what_a_judge_beside_a_dead_run_kept_is_removed(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heal_command, "ENDING_S", 0.1)
    online = tmp_path / "online"
    (online / "parquet").mkdir(parents=True)
    (tmp_path / "online.log").touch()
    manifest = Manifest("local", tmp_path, [str(tmp_path / "nodes")], owner=(1, 1))
    manifest.write()
    # The judge ends with who asked it, but not before the prefix is judged that it is at.
    judge = "import sys, time; print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", judge, str(tmp_path), str(online)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert heal_main() == 1
        assert f"LEFT: process {process.pid}" in capsys.readouterr().out
        assert online.exists()
        process.kill()
    assert heal_main() == 0
    assert f"removed {online}" in capsys.readouterr().out
    assert not online.exists()
    # What it printed may say why the run died.
    assert (tmp_path / "online.log").exists()
    assert not manifest.exists()


def test_heal_with_nothing_to_do_says_so(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert heal_main() == 0
    assert capsys.readouterr().out == "Nothing to heal.\n"


def test_heal_file_that_is_no_manifest_is_an_error_that_names_it(state: Path) -> None:
    state.mkdir(parents=True)
    (state / "broken.json").write_text("{")
    with pytest.raises(ValueError, match=r"broken\.json: not a manifest"):
        heal()


def test_manifest_that_was_being_written_at_a_kill_goes_once_nobody_can_be_writing_it(
    state: Path, tmp_path: Path
) -> None:
    manifest = Manifest("local", tmp_path, ())
    manifest.write()
    ((written, _),) = manifests()
    torn, young = written.with_name("local-torn.new"), written.with_name("local-young.new")
    torn.write_text('{"id": "lo')
    young.write_text("")
    os.utime(torn, (time.time() - 601, time.time() - 601))
    heal()
    assert [file.exists() for file in (torn, young, written)] == [False, True, True]
