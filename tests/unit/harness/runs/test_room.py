from __future__ import annotations

import errno
from pathlib import Path

import pytest

from harness.runs.room import lacking_room, mounted_at, said

MOUNTS = r"""
22 28 0:21 / /proc rw,nosuid shared:13 - proc proc rw
28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 28 8:17 / /data rw,relatime shared:2 - ext4 /dev/sdb1 rw
41 40 0:50 / /data/small rw - tmpfs tmpfs rw,size=64k
42 40 0:51 / /data/with\040space rw master:3 - nfs4 host:/a\040b rw
43 28 8:33 / /data rw,relatime shared:2 - xfs /dev/sdc1 rw
no line of a mount
"""


@pytest.mark.parametrize(
    ("path", "device"),
    [
        ("/home/x", "/dev/sda1 (/)"),
        ("/data/small/store/demo", "tmpfs (/data/small)"),
        ("/data/smaller", "/dev/sdc1 (/data)"),
        ("/data/with space/x", "host:/a b (/data/with space)"),
    ],
)
def test_mounted_at_is_the_innermost_and_of_two_the_later_one(path: str, device: str) -> None:
    assert mounted_at(MOUNTS, Path(path)) == device


def test_mounted_at_without_a_mount_is_unknown() -> None:
    assert mounted_at("", Path("/x")) is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_said_names_the_device_first_also_where_another_error_came_of_it(number: int) -> None:
    cause = OSError(number, "it is full", "/nowhere/history.jsonl")
    error = RuntimeError("the client gave up")
    error.__cause__ = cause
    assert lacking_room(error) is cause
    text = said(error, Path("/"))
    assert text.startswith("no space left on ")
    assert text.endswith(": the client gave up")


def test_said_of_another_error_is_what_it_says() -> None:
    assert said(OSError(errno.EACCES, "no"), Path("/")) == "[Errno 13] no"
