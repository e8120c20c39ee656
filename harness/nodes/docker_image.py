"""The image of a docker node: Debian with Python, firewall tools, Java, ZooKeeper's jars, and the broker's
dependencies.

Decides: what is in it, and how it is built with and without an image registry. Must not know: containers. The
broker itself is not in it: it is copied into each container, as on every other kind of node.

Without a registry: debootstrap from the host's own Debian mirror into a folder, the payload beside it, all of it as
one layer. The root file system is kept as a tar file, named by a hash of its inputs; an engine imports it once.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.nodes.payload import HERE, PythonKind, dependencies
from harness.nodes.sandbox import inside_sandbox
from harness.tools.faketime import faketime_library
from harness.tools.java import cache_folder, packaged_java, zookeeper_jars
from harness.tools.partial_folder import partial_folder

REPOSITORY = "highwater-node"
PAYLOAD = "/opt/highwater"
_LAYOUT = 1
"""Raised when this file lays the image out differently, so that cached ones are not used."""

_PACKAGES = (
    "python3",
    "iptables",
    "nftables",
    "iproute2",
    "iputils-ping",
    "procps",
    "util-linux",
    "mount",
    "e2fsprogs",
)
_MIRRORS = {"debian": "http://deb.debian.org/debian", "ubuntu": "http://archive.ubuntu.com/ubuntu"}
_DEFAULT_SUITE = "bookworm"
_PYTHON_OF_SUITE = {"bookworm": (3, 11), "trixie": (3, 13), "noble": (3, 12)}


class ImageMissing(Exception):
    """The image is not there and cannot be built; the text says what would help."""


class NodeImage:
    """The image as its inputs define it; nothing is built before `name` is called."""

    def __init__(self) -> None:
        self.suite, self.mirror = suite_and_mirror()
        self.python_version = _PYTHON_OF_SUITE[self.suite]
        self.java = packaged_java()
        self.packages = (*_PACKAGES, *(() if self.java else (_java_package(self.suite),)))
        self.tag = f"{REPOSITORY}:{self._hash()}"

    @property
    def rootfs(self) -> Path:
        """The tar file with the root file system, whether built yet or not."""
        return cache_folder() / "images" / f"{self.tag.replace(':', '-')}.tar"

    @property
    def java_path(self) -> str:
        """The Java that runs ZooKeeper, in the image."""
        return f"{PAYLOAD}/java/bin/java" if self.java else "/usr/bin/java"

    @property
    def zookeeper_classpath(self) -> str:
        """ZooKeeper's jars in the image, by colons."""
        return ":".join(f"{PAYLOAD}/zookeeper/{jar.name}" for jar in zookeeper_jars())

    @property
    def dependencies_path(self) -> str:
        """The folder in the image with the packages that the broker imports."""
        return f"{PAYLOAD}/lib"

    @property
    def faketime_path(self) -> str | None:
        """libfaketime in the image, or None where this machine has none to put there."""
        return f"{PAYLOAD}/libfaketime.so.1" if faketime_library() else None

    def present(self, client: Any) -> bool:
        """True when the engine has it."""
        return bool(client.images.list(name=self.tag))

    def ensure(self, client: Any) -> None:
        """Have the image in the engine; ImageMissing when that cannot be done."""
        if self.present(client):
            return
        why_not = can_debootstrap()
        if inside_sandbox() and not self.rootfs.exists():
            raise ImageMissing(
                f"{self.rootfs} is not there, and the sandbox has no way to a Debian mirror: the run must begin with"
                " harness.nodes.factory.enter_sandbox(), which makes it"
            )
        if self.rootfs.exists() or why_not is None:
            self.build_rootfs()
            self._import(client)
        else:
            self._build_from_registry(client, why_not)

    def build_rootfs(self) -> None:
        """Make the tar file; it needs root, debootstrap and a Debian mirror. Does nothing when it is there."""
        if self.rootfs.exists():
            return
        why_not = can_debootstrap()
        if why_not is not None:
            raise ImageMissing(why_not)
        with partial_folder(self.rootfs) as partial:
            folder, packed = partial / "root", partial / "root.tar"
            folder.mkdir()
            _debootstrap(folder, self.suite, self.mirror, self.packages)
            self._add_payload(folder / PAYLOAD.lstrip("/"))
            with tarfile.open(packed, "w") as archive:
                archive.add(folder, arcname=".", filter=_lean)
            packed.rename(self.rootfs)

    def _hash(self) -> str:
        library = faketime_library()
        inputs = {
            "layout": _LAYOUT,
            "suite": self.suite,
            "packages": self.packages,
            "dependencies": self._dependencies().name,
            "java": None if self.java is None else _java_release(self.java.home),
            "jars": [jar.name for jar in zookeeper_jars()],
            "faketime": None if library is None else hashlib.sha256(library.read_bytes()).hexdigest(),
        }
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]

    def _dependencies(self) -> Path:
        return dependencies(PythonKind(self.python_version, HERE.machine))

    def _add_payload(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(self._dependencies(), folder / "lib", dirs_exist_ok=True)
        if self.java is not None:
            shutil.copytree(self.java.home, folder / "java", symlinks=True, dirs_exist_ok=True)
        (folder / "zookeeper").mkdir(exist_ok=True)
        for jar in zookeeper_jars():
            shutil.copy2(jar, folder / "zookeeper" / jar.name)
        library = faketime_library()
        if library is not None:
            shutil.copy2(library, folder / "libfaketime.so.1")

    def _import(self, client: Any) -> None:
        repository, tag = self.tag.split(":")
        reply = client.api.import_image(str(self.rootfs), repository=repository, tag=tag)
        if "error" in reply:
            raise ImageMissing(f"the engine did not import {self.rootfs}: {reply[-500:]}")

    def _build_from_registry(self, client: Any, why_not: str) -> None:
        """The same image from the registry's Debian; the engine needs a way to a Debian mirror."""
        try:
            with partial_folder(cache_folder() / "images" / self.tag.replace(":", "-")) as context:
                self._add_payload(context / "payload")
                (context / "Dockerfile").write_text(self.dockerfile())
                client.images.build(path=str(context), tag=self.tag, rm=True, forcerm=True, network_mode="host")
        except Exception as error:
            raise ImageMissing(
                f"no image {self.tag}: building it from {_registry_image(self.suite)} failed ({error}), and without a"
                f" registry: {why_not}"
            ) from error

    def dockerfile(self) -> str:
        """Instructions for an engine that reaches a registry. The context holds `payload/`."""
        return (
            f"FROM {_registry_image(self.suite)}\n"
            "RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends"
            f" {' '.join(self.packages)} && rm -rf /var/lib/apt/lists/*\n"
            f"COPY payload {PAYLOAD}\n"
        )


def can_debootstrap() -> str | None:
    """None when a root file system can be made here, else what is missing."""
    if os.geteuid() != 0:
        return "debootstrap needs root"
    if shutil.which("debootstrap") is None:
        return "debootstrap is missing: sudo apt-get install debootstrap"
    return None


def suite_and_mirror() -> tuple[str, str]:
    """Release and mirror that the host's own apt uses, when the release has Python 3.11+; Debian's otherwise."""
    release = platform.freedesktop_os_release()
    suite, family = release.get("VERSION_CODENAME", ""), release.get("ID", "")
    if suite not in _PYTHON_OF_SUITE or family not in _MIRRORS:
        return _DEFAULT_SUITE, _MIRRORS["debian"]
    return suite, _configured_mirror(Path("/etc/apt"), suite) or _MIRRORS[family]


def _configured_mirror(apt: Path, suite: str) -> str | None:
    """The first http source of this suite's main component, from one-line and deb822 files."""
    for file in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        if not file.is_file():
            continue
        text = file.read_text(errors="replace")
        for match in re.finditer(r"^deb\s+(?:\[[^]]*\]\s+)?(https?://\S+)\s+(\S+)\s.*\bmain\b", text, re.MULTILINE):
            if match[2] == suite:
                return match[1]
        for stanza in re.split(r"\n\s*\n", text):
            lines = stanza.splitlines()
            fields = {key.strip().lower(): value.split() for key, _, value in (line.partition(":") for line in lines)}
            web = [uri for uri in fields.get("uris", []) if uri.startswith(("http://", "https://"))]
            if "deb" in fields.get("types", []) and suite in fields.get("suites", []) and web:
                return web[0]
    return None


def _debootstrap(folder: Path, suite: str, mirror: str, packages: Sequence[str]) -> None:
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}"]
    if suite == "noble":
        command.append("--components=main,universe")
    done = subprocess.run([*command, suite, str(folder), mirror], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImageMissing(f"debootstrap {suite} from {mirror} exited {done.returncode}: {done.stdout[-1000:]}")
    for name in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(folder / name, ignore_errors=True)


def _lean(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Device nodes are the engine's to make."""
    return None if member.ischr() or member.isblk() else member


def _registry_image(suite: str) -> str:
    return "ubuntu:noble" if suite == "noble" else f"debian:{suite}-slim"


def _java_package(suite: str) -> str:
    return "openjdk-21-jre-headless" if suite == "trixie" else "openjdk-17-jre-headless"


def _java_release(home: Path) -> str:
    return (home / "release").read_text()
