"""The image of examples/nightly/Dockerfile, by the commands of its own comment: built, and nights in it.

Its base is a stand-in, Debian's bookworm with Debian's Python, so that no registry of images is asked; the engine is
the test's own. apt and pip reach the package indexes as this machine does.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.nodes.docker_engine import can_start, cgroup_name, remove_cgroups
from harness.nodes.docker_image import can_debootstrap, suite_and_mirror
from harness.nodes.posix import CLEAN_PATH
from harness.runs.store import read_json
from tests.support import runc_here
from tests.support.brokers import ROOT
from tests.support.wait import eventually

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.docker,
    pytest.mark.timeout(2400),
    pytest.mark.guarantee("H7"),
]

BASE = "python:3.12-slim-bookworm"
_BUNDLE = "etc/ssl/certs/ca-certificates.crt"
_WAY_OUT = ("PIP_INDEX_URL", "http_proxy", "https_proxy", "no_proxy")


class Engine:
    """dockerd with all that is its own in one folder, and the stand-in in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"unix://{folder}/socket"
        runtime = folder / "runc-here"
        runtime.write_text(f'#!/bin/sh\nexec {sys.executable} -I {runc_here.__file__} "$@"\n')
        runtime.chmod(0o755)
        # The build needs the machine's network. There an engine that is to have no bridge would remove the one of the
        # machine's own engine, and without its switches it would change the firewall.
        self._bridge = f"hw-image-{os.getpid() % 100_000}"
        switches = ["--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false"]
        subprocess.run(["ip", "link", "add", self._bridge, "type", "bridge"], check=True)
        subprocess.run(["ip", "address", "add", "198.51.100.1/24", "dev", self._bridge], check=True)
        with (folder / "dockerd.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "dockerd",
                    f"--data-root={folder}/data",
                    f"--exec-root={folder}/exec",
                    f"--pidfile={folder}/pid",
                    f"--host={self.url}",
                    f"--cgroup-parent=/{cgroup_name(folder)}",
                    f"--add-runtime=here={runtime}",
                    "--default-runtime=here",
                    f"--bridge={self._bridge}",
                    *switches,
                ],
                env={**os.environ, "PATH": CLEAN_PATH},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Until it answers."""
        eventually(lambda: self.docker("version", check=False).returncode == 0, "an answer of the engine", 40)

    def docker(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `docker` from the top of the checkout; with `check`, fails with what it printed."""
        done = subprocess.run(
            ["docker", *arguments],
            cwd=ROOT,
            env={**os.environ, "DOCKER_HOST": self.url, "DOCKER_BUILDKIT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done

    def stop(self) -> None:
        """Leaves nothing: no container of a test that failed, no mount, no bridge."""
        if left := self.docker("ps", "--all", "--quiet", check=False).stdout.split():
            self.docker("rm", "--force", "--volumes", *left, check=False)
        self._process.terminate()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            for namespace in self.folder.glob("exec/netns/*"):
                subprocess.run(["umount", namespace], check=False)
            subprocess.run(["ip", "link", "delete", self._bridge], check=False)
            remove_cgroups(self.folder)


def documented(command: str) -> list[str]:
    """The arguments of `docker COMMAND` in the Dockerfile's comment."""
    (line,) = re.findall(
        rf"^#   docker ({command} .*)$", (ROOT / "examples/nightly/Dockerfile").read_text(), re.MULTILINE
    )
    return shlex.split(line)


def import_stand_in(engine: Engine) -> None:
    root = engine.folder / "root"
    suite, mirror = suite_and_mirror()
    if suite != "bookworm":
        mirror = "http://deb.debian.org/debian"
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", "--include=ca-certificates,python3,python3-pip", "bookworm", root, mirror],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-2000:]
    # As in Python's own images: `python` is there, and pip may install.
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    if Path("/", _BUNDLE).exists():
        shutil.copy(Path("/", _BUNDLE), root / _BUNDLE)
    (root / "etc/pip.conf").write_text(f"[global]\ncert = /{_BUNDLE}\n")
    packed = engine.folder / "root.tar"
    subprocess.run(["tar", "-C", root, "--exclude=./dev/*", "-cf", packed, "."], check=True)
    shutil.rmtree(root)
    changes = [f"ENV {name}={os.environ[name]}" for name in _WAY_OUT if name in os.environ]
    engine.docker("import", *(f"--change={change}" for change in changes), str(packed), BASE)
    packed.unlink()


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """With the image built as the Dockerfile says."""
    for missing in (can_start(), can_debootstrap(), None if shutil.which("docker") else "there is no `docker`"):
        if missing is not None:
            pytest.skip(missing)
    # No folder of pytest's, which would be kept.
    with tempfile.TemporaryDirectory(prefix="highwater-image-") as folder:
        started = Engine(Path(folder))
        try:
            started.wait()
            import_stand_in(started)
            build, *rest = documented("build")
            started.docker(build, "--network=host", *rest)
            yield started
        finally:
            started.stop()


def night(engine: Engine, out: Path, run_file: str, *options: str) -> list[str]:
    """The arguments of `docker` for a night of one run; `out` is its volume."""
    run, *rest = documented("run")
    (out / "run.toml").write_text(run_file)
    rest[rest.index("nightly:/nightly")] = f"{out}:/nightly"
    return [run, *options, *rest, "/nightly/run.toml", "--seeds", "1", "--out", "/nightly"]


def test_night_in_the_image_ends_with_its_verdict_and_its_pages(engine: Engine, tmp_path: Path) -> None:
    done = engine.docker(*night(engine, tmp_path, (ROOT / "tests/quick.toml").read_text()), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\[1/1\] quick seed 1: valid in \d+ s$", done.stdout, re.MULTILINE), done.stdout
    assert {"summary.html", "summary.markdown", "badge.svg", "junit.xml", "night.json", "history.sqlite"} <= {
        file.name for file in tmp_path.iterdir()
    }
    (results,) = (tmp_path / "store/quick").glob("2*/results.json")
    assert read_json(results)["verdict"] == "valid"


def test_night_that_docker_stops_takes_its_faults_back_and_writes_its_pages(engine: Engine, tmp_path: Path) -> None:
    longer = (ROOT / "tests/quick.toml").read_text().replace("time_limit_s = 8.0", "time_limit_s = 120.0")
    command = night(engine, tmp_path, longer, "--detach", "--name=stopped")
    command.remove("--rm")
    engine.docker(*command)

    def output() -> str:
        return "".join(file.read_text() for file in tmp_path.glob("logs/*.log"))

    eventually(lambda: "faults: 1 done" in output(), "a fault", 120)
    engine.docker("stop", "stopped")
    code = engine.docker("inspect", "--format={{.State.ExitCode}}", "stopped").stdout.strip()
    said = engine.docker("logs", "stopped").stdout
    engine.docker("rm", "stopped")
    # 137 were the kill after the grace.
    assert code == "255", said
    assert "not run: 1 of 1; --resume goes on with them" in said
    assert "ending: faults are taken back" in output()
    assert "not run: 1 of 1" in (tmp_path / "summary.markdown").read_text()
    assert (tmp_path / "summary.html").is_file()


def test_image_holds_no_second_copy_of_the_code(engine: Engine) -> None:
    """One in the working directory would come before the installed one."""
    names = engine.docker("run", "--rm", "--entrypoint=ls", "highwater-nightly", "-A", "/highwater").stdout.split()
    assert names == ["examples"]
