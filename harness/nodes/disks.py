"""Disks that can lose power: a folder of a node is an ext4 of its own, in an image file beside it.

Decides how such a disk is made, cut off and given back. Must not know why, or what lies on it. The cut is the file
system's own shutdown without a flush of its log (FS_IOC_SHUTDOWN, as xfstests use it): from then on every access fails,
and the image holds what the block device had been given, none of what was in the page cache or in an uncommitted
transaction of the journal. What comes back is a copy of that image, mounted as after a restart. Nothing of it outlives
the run: mounts of local nodes and of the harness's own sshd nodes go with the run's sandbox, those of a container with
the container, and those on given hosts are taken away with the run's folder (`detach_below`), by heal too; the kernel
then gives the loop device back.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from harness.nodes.base import CommandFailed, Completed, Node

_SIZE = "512M"
# A container's /dev is its own: it has no loop devices until somebody makes their files there.
_LOOPS = r"""
loops() {
    [ -e /.dockerenv ] || [ -e /run/.containerenv ] || return 0
    [ -e /dev/loop-control ] || mknod -m 600 /dev/loop-control c 10 237
    n=0
    while [ "$n" -lt 256 ]; do
        [ -e "/dev/loop$n" ] || mknod -m 600 "/dev/loop$n" b 7 "$n"
        n=$((n + 1))
    done
}
"""
_PROBE = (
    _LOOPS
    + r"""
read -r _ outside _ < /proc/self/uid_map
[ "$(id -u)" = 0 ] && [ "$outside" = 0 ] || { echo "to mount a disk image needs root"; exit; }
can=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
[ $((0x${can#????????} >> 21 & 1)) = 1 ] || { echo "to mount a disk image needs CAP_SYS_ADMIN"; exit; }
command -v mkfs.ext4 > /dev/null || { echo "mkfs.ext4 is not installed (apt-get install e2fsprogs)"; exit; }
loops 2> /dev/null
[ -e /dev/loop-control ] || modprobe loop 2> /dev/null
[ -e /dev/loop-control ] || { echo "there is no /dev/loop-control: no loop devices to mount an image on"; exit; }
error=$(losetup -f 2>&1 > /dev/null) || echo "no loop device can be had to mount an image on: $error"
"""
)
# mkfs makes a folder lost+found, which is no partition's; its removal is to survive a cut.
_ATTACH = (
    _LOOPS
    + r"""
set -e
loops
mkdir -p "$2" "$(dirname "$1")"
truncate -s "$3" "$1"
mkfs.ext4 -q -F "$1"
mount -o loop,noatime "$1" "$2"
rmdir "$2/lost+found"
sync -f "$2"
"""
)
_SHUT_DOWN = """
import fcntl, os, struct, sys
folder = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
fcntl.ioctl(folder, 0x8004587D, struct.pack("I", 2))
"""
# Processes that were killed may have files open for a moment after they are gone for who waits for them, and so may
# what they had started: the folder is busy until then.
_RESTORE = r"""
set -e
tries=0
until error=$(umount "$2" 2>&1); do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { echo "$error" >&2; exit 1; }
    sleep 0.1
done
cp --sparse=always "$1" "$1.cut"
mv "$1.cut" "$1"
mount -o loop,noatime "$1" "$2"
"""
_DETACH = r"""
if mountpoint -q "$2"; then umount -l "$2"; fi
rm -f "$1" "$1.cut"
"""
_DETACH_BELOW = r"""
while read -r _ where _; do
    case $where in "$1"/*) echo "$where" ;; esac
done < /proc/self/mounts | sort -r | while read -r where; do umount -l "$where"; done
"""
_BYTES = (
    r'find "$1" -type f -name "*.log" -exec stat -c %s {} + | { s=0; while read -r n; do s=$((s + n)); done; echo $s; }'
)


def missing(node: Node) -> str | None:
    """None when the node can have such disks, else what it lacks."""
    return _script(node, _PROBE).strip() or None


def attached(node: Node, folder: str) -> bool:
    """Whether the folder is a disk of ours, with power."""
    return node.exists(_image(node)) and node.run(["mountpoint", "-q", folder], check=False).returncode == 0


def attach(node: Node, folder: str) -> None:
    """Make the folder an empty disk. Raises CommandFailed."""
    _script(node, _ATTACH, _image(node), folder, _SIZE)


def cut(node: Node, folder: str) -> None:
    """The power fails: every access to the folder fails from now on, and nothing more reaches the disk."""
    node.run([node.python, "-I", "-S", "-c", _SHUT_DOWN, folder])


def restore(node: Node, folder: str) -> None:
    """The power is back, with what the disk held at the cut. Nobody may have a file of the folder open."""
    _script(node, _RESTORE, _image(node), folder)


def detach(node: Node, folder: str) -> None:
    """Take the disk away, whatever state it is in; does nothing where there is none."""
    _script(node, _DETACH, _image(node), folder)


def detach_below(node: Node, folder: str) -> None:
    """Take all disks away that are mounted below a folder, so that it can be removed. Raises CommandFailed."""
    _script(node, _DETACH_BELOW, folder)


def log_bytes(node: Node, folder: str) -> int:
    """The size of all segment files together. Raises CommandFailed."""
    return int(_done(node, _BYTES, folder).stdout)


def _image(node: Node) -> str:
    return str(PurePosixPath(node.root) / "disk" / "image")


def _script(node: Node, script: str, *arguments: str) -> str:
    return _done(node, script, *arguments).stdout


def _done(node: Node, script: str, *arguments: str) -> Completed:
    done = node.run(["sh", "-c", script, "sh", *arguments], check=False, timeout_s=60.0)
    if done.returncode != 0:
        raise CommandFailed(f"node {node.name}: its disk: {done.stderr.strip() or done.returncode}")
    return done
