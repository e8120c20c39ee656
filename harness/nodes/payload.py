"""What a node needs to run a broker and a ZooKeeper server, as it lies on the harness's machine.

Decides: which files those are. Must not know: how they get to a node.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.tools.faketime import faketime_library
from harness.tools.java import JavaHome, find_java_for_zookeeper, zookeeper_jars


class Payload:
    """The broker package, copied once so that an edit of the source does not change a run, and the tools beside it."""

    def __init__(self, source: Path, folder: Path) -> None:
        """source: holds the package `broker`; folder: where the copy goes."""
        self._source = source
        self.broker_folder = folder

    def copy_broker(self) -> None:
        """Copy the package; ValueError when `source` has none."""
        package = self._source / "broker"
        if not (package / "__init__.py").is_file():
            raise ValueError(f"system.source = {self._source}: no package `broker` there ({package}/__init__.py)")
        shutil.copytree(
            package,
            self.broker_folder / "broker",
            ignore=shutil.ignore_patterns("__pycache__"),
            dirs_exist_ok=True,
        )

    def java(self) -> JavaHome:
        return find_java_for_zookeeper()

    def zookeeper_jars(self) -> list[Path]:
        return zookeeper_jars()

    def faketime_library(self) -> Path | None:
        return faketime_library()
