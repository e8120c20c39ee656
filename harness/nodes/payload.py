"""What a node needs to run a broker and a ZooKeeper server, as it lies on the harness's machine.

Decides: which files those are, and how the broker's dependencies are fetched for a Python that is not the harness's.
Must not know: how they get to a node.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.nodes.packages import copy_code
from harness.tools.faketime import faketime_library
from harness.tools.java import JavaHome, cache_folder, find_java_for_zookeeper, zookeeper_jars
from harness.tools.partial_folder import partial_folder

BROKER = "broker"
_FALLBACK_DEPENDENCIES = ("kazoo", "crc32c")


@dataclass(frozen=True, slots=True)
class PythonKind:
    """What a compiled wheel depends on. version: (3, 11); machine: as in uname -m."""

    version: tuple[int, int]
    machine: str


HERE = PythonKind(sys.version_info[:2], platform.machine())


class Payload:
    """The broker package, copied once so that an edit of the source does not change a run, and the tools beside it.

    A source without that package belongs to a system that brings its nodes what they run (`harness.nodes.packages`).
    """

    def __init__(self, source: Path, folder: Path) -> None:
        """source: the system's; folder: where the copy goes."""
        self._source = source
        self.broker_folder = folder

    def copy_broker(self) -> None:
        """Make the folder, with a copy of the package where `source` has one."""
        self.broker_folder.mkdir(parents=True, exist_ok=True)
        package = self._source / BROKER
        if (package / "__init__.py").is_file():
            copy_code(package, self.broker_folder / BROKER)

    def packages(self) -> list[Path]:
        """The copied package, or none; `copy_broker` comes first."""
        return [self.broker_folder / BROKER] if (self.broker_folder / BROKER).is_dir() else []

    def dependencies(self, python: PythonKind) -> Path:
        """A folder with the broker's dependencies for that Python, ready for PYTHONPATH; cached."""
        return dependencies(python)

    def importable(self) -> list[str]:
        """What a node must be able to import before it can run the broker; nothing where there is none to run."""
        return [BROKER, *_dependency_names()] if self.packages() else []

    def java(self) -> JavaHome:
        """The Java on this machine that runs ZooKeeper. Raises JavaMissing."""
        return find_java_for_zookeeper()

    def zookeeper_jars(self) -> list[Path]:
        """The jars of a ZooKeeper server, out of the installed pyspark. Raises FileNotFoundError."""
        return zookeeper_jars()

    def faketime_library(self) -> Path | None:
        """libfaketime on this machine, or None."""
        return faketime_library()


def dependencies(python: PythonKind) -> Path:
    """The broker's dependencies in the harness's own versions, installed for `python` into a cached folder."""
    wanted = [f"{name}=={importlib.metadata.version(name)}" for name in _dependency_names()]
    label = f"{python.version[0]}.{python.version[1]}-{python.machine}"
    target = cache_folder() / "dependencies" / "-".join([label, *(re.sub(r"[^\w.]+", "-", item) for item in wanted)])
    if target.exists():
        return target
    with partial_folder(target) as partial:
        if python == HERE:
            for name in _dependency_names():
                _copy_distribution(name, partial)
        else:
            _pip_install(wanted, python, partial)
        try:
            partial.rename(target)
        except OSError:
            # Another run, or the thread of another node, was quicker: its copy is as good.
            if not target.exists():
                raise
    return target


def _dependency_names() -> list[str]:
    try:
        requirements = importlib.metadata.requires("highwater") or []
    except importlib.metadata.PackageNotFoundError:
        requirements = list(_FALLBACK_DEPENDENCIES)
    plain = [text for text in requirements if "extra ==" not in text]
    return [match[0] for text in plain if (match := re.match(r"[\w.-]+", text))]


def _copy_distribution(name: str, target: Path) -> None:
    """Copy an installed distribution's importable files (its scripts lie outside of site-packages)."""
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or []:
        if file.parts[0] == ".." or "__pycache__" in file.parts:
            continue
        copy = target / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(str(distribution.locate_file(file)), copy)


def _pip_install(wanted: list[str], python: PythonKind, target: Path) -> None:
    version = ".".join(map(str, python.version))
    # crc32c's wheels are tagged manylinux2014 or later, by the glibc they need.
    platforms = [f"manylinux{tag}_{python.machine}" for tag in ("2014", "_2_17", "_2_28")]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--target", str(target), "--python-version", version, "--only-binary=:all:", "--implementation", "cp"]
    command += [option for name in platforms for option in ("--platform", name)]
    done = subprocess.run([*command, *wanted], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(
            f"no wheels of {', '.join(wanted)} for Python {version} on {python.machine}: {done.stderr.strip()[-1000:]}"
        )
