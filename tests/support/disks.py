"""Disks that lose power, fill up, or break: ext4 in an image file, and a small tmpfs. Only inside of the sandbox.

A power failure is the file system's own shutdown without a log flush (FS_IOC_SHUTDOWN, as xfstests use it): from then
on nothing reaches the image, so it holds what the block device had been given, and none of what was in the page cache
or in an uncommitted journal transaction. The image is then copied, and the copy mounted as a restart would.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

from harness.nodes.sandbox import inside_sandbox

_FS_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2
_IMAGE_BYTES = 160 << 20


def missing() -> str | None:
    """None when this machine can make such disks (asked inside of the sandbox), else what it lacks."""
    if os.geteuid() != 0:
        return "loop mounts need root"
    if shutil.which("mkfs.ext4") is None:
        return "mkfs.ext4 is not installed (e2fsprogs)"
    if not Path("/dev/loop-control").exists():
        return "there is no /dev/loop-control"
    return None


class PowerlessDisk:
    """An ext4 in an image file, mounted on `path` while it has power."""

    def __init__(self, images: Path, path: Path) -> None:
        assert inside_sandbox(), "mounts must not outlive the test"
        self._images = images
        self.path = path
        self.cuts = 0
        images.mkdir(parents=True, exist_ok=True)
        path.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as file:
            file.truncate(_IMAGE_BYTES)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self.mount()

    @property
    def _image(self) -> Path:
        return self._images / f"{self.path.name}.{self.cuts}"

    def mount(self) -> None:
        _run("mount", "-o", "loop,noatime", str(self._image), str(self.path))

    def break_down(self) -> None:
        """From now on every access fails with EIO, and nothing reaches the image any more."""
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, _FS_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def cut_power(self) -> None:
        """`break_down`, then the disk as it was at that moment, mounted again. Whoever had it open must be gone."""
        self.break_down()
        self.restore_power()

    def restore_power(self) -> None:
        """After `break_down`, with nobody left who has files open: mount a copy of the image."""
        _run("umount", str(self.path))
        old = self._image
        self.cuts += 1
        _run("cp", "--sparse=always", str(old), str(self._image))
        old.unlink()
        self.mount()

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            _run("umount", "-l", str(self.path))


def mount_small(path: Path, size_bytes: int) -> None:
    """A tmpfs of so many bytes."""
    assert inside_sandbox(), "mounts must not outlive the test"
    path.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(path))


def unmount(path: Path) -> None:
    _run("umount", "-l", str(path))


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(argv)}: {done.stderr.strip()}")
