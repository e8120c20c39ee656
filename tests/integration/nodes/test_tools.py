"""The tools of the machine that runs the tests: Java, libfaketime, doctor, the installer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.commands import doctor
from harness.nodes.docker_image import NodeImage, _configured_mirror
from harness.nodes.payload import HERE, PythonKind, dependencies
from harness.tools import java
from harness.tools.faketime import check_faketime, faketime_library

ROOT = Path(__file__).resolve().parents[3]


def test_faketime_library_of_the_package_fakes_the_wall_clock_only() -> None:
    library = faketime_library()
    assert library is not None
    assert check_faketime(library) is None


def test_faketime_library_that_is_none_is_reported() -> None:
    wrong = check_faketime(Path("/no/such/library.so"))
    assert wrong is not None
    assert "the wall clock moved by" in wrong


def test_java_for_zookeeper_prefers_the_system_one_and_falls_back_to_the_packaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packaged = java.packaged_java()
    assert packaged is not None
    assert java.installed_javas()[-1] == packaged
    system = java.JavaHome(Path("/usr/lib/jvm/some"), 17, "system")
    monkeypatch.setattr(java, "_candidates", lambda: iter([system, packaged]))
    assert java.find_java_for_zookeeper.__wrapped__() == system
    too_old = java.JavaHome(Path("/usr/lib/jvm/old"), 8, "system")
    monkeypatch.setattr(java, "_candidates", lambda: iter([too_old, packaged]))
    assert java.find_java_for_zookeeper.__wrapped__() == packaged


def test_java_for_spark_none_that_will_do_is_an_error_with_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    new = java.JavaHome(Path("/usr/lib/jvm/new"), 25, "system")
    monkeypatch.setattr(java, "_candidates", lambda: iter([new]))
    with pytest.raises(java.JavaMissing, match=r"Java 17 or 21; found: 25 at /usr/lib/jvm/new\. Get one by"):
        java.find_java_for_spark.__wrapped__()


@pytest.mark.parametrize(
    ("option", "kept"),
    [("--add-modules=jdk.incubator.vector", False), ("--add-modules=java.sql", True), ("-Da=b c 'd'", True)],
)
def test_java_without_the_vector_module_drops_only_that_option(
    option: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    real = tmp_path / "real" / "bin" / "java"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\nfor option do echo "[$option]"; done\n')
    real.chmod(0o755)
    shim = java._shim(java.JavaHome(real.parents[1], 21, "test"))
    shown = subprocess.run(
        [shim.executable, "-Xmx1g", option, "Main"], capture_output=True, text=True, check=True
    ).stdout
    assert shown.splitlines() == ["[-Xmx1g]", *([f"[{option}]"] if kept else []), "[Main]"]


@pytest.mark.spark
def test_packaged_java_runs_spark() -> None:
    """What a machine without a Java of its own relies on."""
    code = (
        "import sys\n"
        "from harness.commands import doctor\n"
        "from harness.tools import java\n"
        "packaged = java.packaged_java()\n"
        "java._candidates = lambda: iter([packaged])\n"
        "row = doctor._java_for_spark(True)\n"
        "print(row)\n"
        "sys.exit(0 if row.state is doctor.State.OK else 1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_doctor_on_the_machine_that_runs_the_tests_finds_every_node_kind() -> None:
    extra = doctor.Row("fault: kill", doctor.State.OK, "on every node")
    rows = doctor.doctor(lambda: [extra])
    states = {row.what: row.state for row in rows}
    # A kind that is missing here would be a kind that is not tested.
    for what in ("Python", "ZooKeeper", "Java for ZooKeeper", "libfaketime", "sandbox", "nodes: local"):
        assert states[what] is doctor.State.OK, rows
    if os.geteuid() == 0:
        assert states["nodes: ssh"] is doctor.State.OK
        assert states["nodes: docker"] is doctor.State.OK
    assert rows[-1] == extra
    assert "nodes: local" in doctor.table(rows)


def test_doctor_shows_a_check_that_fails_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[doctor.Row]:
        raise ValueError("no such thing")

    monkeypatch.setattr(doctor, "_local_nodes", lambda _sandboxed: doctor.Row("nodes: local", doctor.State.OK, ""))
    rows = doctor.doctor(broken)
    assert rows[-1] == doctor.Row("faults", doctor.State.MISSING, "the check failed: ValueError: no such thing")
    assert "Python" in {row.what for row in rows}


def test_doctor_runs_no_spark_job_without_its_option_and_says_so() -> None:
    row = doctor._java_for_spark(False)
    assert row.detail.endswith("; no job was tried (highwater doctor --spark)")


def test_install_without_anything_installed_prints_the_exact_command() -> None:
    # An empty PATH and no apt-get stand for a machine of an ordinary user.
    code = (
        "import harness.tools.install as install\n"
        "install._PATH = '/nowhere'\n"
        "install.shutil.which = lambda name, path=None: None\n"
        "raise SystemExit(install.main(['--for', 'demo', '--strict']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "apt-get install -y --no-install-recommends iproute2 iptables util-linux procps\n" in done.stderr


@pytest.mark.parametrize("module", ["argparse", "subprocess"])
def test_install_that_is_interrupted_in_its_imports_is_quiet(module: str) -> None:
    """-X importtime names each module on stderr as soon as its import is over; `make demo` begins with this program."""
    argv = [sys.executable, "-X", "importtime", "-m", "harness.tools.install", "--for", "demo"]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        if not line.startswith("import time:"):
            said.append(line)
        elif line.rpartition("|")[2].strip() == module:
            process.send_signal(signal.SIGINT)
    process.stderr.close()
    # One that had nothing left to import may have been done.
    assert process.wait(60) in (-signal.SIGINT, 0)
    assert said == []


def test_install_imports_the_standard_library_only() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "harness" / "tools" / "install.py"), "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_dependencies_for_our_own_python_are_importable_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = dependencies(HERE)
    code = "import kazoo, crc32c; print(kazoo.__file__)"
    environment = {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(folder))
    assert dependencies(HERE) == folder


def test_dependencies_are_whole_where_several_nodes_want_them_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run on a machine has nothing cached, and sets its nodes up in parallel."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ThreadPoolExecutor(8) as threads:
        (folder,) = set(threads.map(dependencies, [HERE] * 8))
    assert list(folder.parent.iterdir()) == [folder], "nothing is left of those who came second"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "alone"))
    alone = dependencies(HERE)
    assert _files(folder) == _files(alone) != set()


def _files(folder: Path) -> set[Path]:
    return {file.relative_to(folder) for file in folder.rglob("*") if file.is_file()}


def test_dependencies_for_a_python_without_wheels_are_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"no wheels of .*crc32c==.* for Python 3\.99 on s390x"):
        dependencies(PythonKind((3, 99), "s390x"))
    assert list((tmp_path / "highwater" / "dependencies").iterdir()) == []


def test_configured_mirror_is_read_from_both_formats(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("# deb http://commented bookworm main\ndeb http://old bullseye main\n")
    (tmp_path / "sources.list.d" / "debian.sources").write_text(
        "Types: deb\n# a comment: here\nURIs: http://security\nSuites: bookworm-security\nComponents: main\n\n"
        "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\nComponents: main\n"
    )
    assert _configured_mirror(tmp_path, "bookworm") == "http://mirror/debian"
    (tmp_path / "sources.list").write_text("deb [arch=amd64 signed-by=/x] https://first/debian bookworm main contrib\n")
    assert _configured_mirror(tmp_path, "bookworm") == "https://first/debian"
    assert _configured_mirror(tmp_path, "trixie") is None


def test_image_is_named_by_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    image = NodeImage()
    assert image.tag == NodeImage().tag
    monkeypatch.setattr("harness.nodes.docker_image._PACKAGES", ("python3",))
    assert NodeImage().tag != image.tag
    assert "RUN apt-get update" in image.dockerfile()
