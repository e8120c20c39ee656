"""Install the Debian packages that the lab needs of the system. Standard library only: it runs before all else.

As root with apt-get the missing ones are installed; otherwise the exact command is printed, and the lab goes on with
what is installed.
"""

from __future__ import annotations

import signal

if __name__ == "__main__":
    # Before the other imports, which take time, so that Ctrl-C is quiet during them as well.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass

_PATH = os.pathsep.join(["/usr/local/sbin", "/usr/sbin", "/sbin", os.environ.get("PATH", os.defpath)])


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package and the programs or files that show it is there: one of them suffices."""

    name: str
    programs: tuple[str, ...]
    files: tuple[str, ...] = ()

    @property
    def present(self) -> bool:
        """Whether one of its programs or files is on this machine; the package manager is not consulted."""
        found = any(shutil.which(program, path=_PATH) for program in self.programs)
        return found or any(os.path.exists(path) for path in self.files)


_DEMO = (
    Package("iproute2", ("ip",)),
    Package("iptables", ("nft", "iptables", "iptables-nft", "iptables-legacy")),
    Package("util-linux", ("nsenter",)),
    Package("procps", ("ps",)),
)
_TEST = (
    *_DEMO,
    # The lab takes whichever firewall works on a node; the tests' own cuts and looks go by nft.
    Package("nftables", ("nft",)),
    Package("iputils-ping", ("ping",)),
    Package("strace", ("strace",)),
    Package("openssh-server", ("sshd",)),
    Package("openssh-client", ("ssh-keygen",)),
    Package("docker.io", ("dockerd",)),
    Package("debootstrap", ("debootstrap",)),
    Package("chromium", ("chromium", "chromium-browser", "google-chrome")),
    Package("kcat", ("kcat",)),
)
_COMPILE = (
    # gcc alone would come without the C library's headers.
    Package("build-essential", ("gcc", "cc")),
    Package("python{}.{}-dev".format(*sys.version_info), (), (f"{sysconfig.get_paths()['include']}/Python.h",)),
)
_JAVA = (
    Package("maven", ("mvn",)),
    Package("openjdk-17-jdk-headless", ("javac",)),
)
_BENCH = (
    *_COMPILE,
    Package("librdkafka-dev", (), ("/usr/include/librdkafka/rdkafka.h", "/usr/local/include/librdkafka/rdkafka.h")),
    Package("maven", ("mvn",)),
    Package("openjdk-17-jre-headless", ("java",)),
)
PACKAGES = {"demo": _DEMO, "test": _TEST, "compile": _COMPILE, "java": _JAVA, "bench": _BENCH}


def missing(purpose: str) -> list[str]:
    """Names of the packages for that purpose whose programs are not there."""
    return [package.name for package in PACKAGES[purpose] if not package.present]


def install_command(names: list[str]) -> str:
    """What a person types to install the packages."""
    return f"sudo apt-get update && sudo apt-get install -y --no-install-recommends {' '.join(names)}"


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when everything is there now, also when something is missing that only the user can install."""
    parser = argparse.ArgumentParser(prog="python -m harness.tools.install", description=__doc__)
    parser.add_argument("--for", dest="purpose", choices=sorted(PACKAGES), default="demo")
    parser.add_argument("--strict", action="store_true", help="exit 1 when something stays missing")
    args = parser.parse_args(arguments)
    absent = missing(args.purpose)
    if not absent:
        return 0
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"Installing {', '.join(absent)} ...", flush=True)
        _apt_get("update", "-q")
        _apt_get("install", "-y", "-q", "--no-install-recommends", *absent)
        absent = missing(args.purpose)
        if not absent:
            return 0
    print(
        f"Missing on this machine: {', '.join(absent)}. What needs them will not work until you run:\n"
        f"  {install_command(absent)}",
        file=sys.stderr,
    )
    return 1 if args.strict else 0


def _apt_get(*arguments: str) -> None:
    # Without an init, a package that starts a service must not fail for it.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    done = subprocess.run(
        ["apt-get", "-o", "DPkg::Lock::Timeout=120", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(f"apt-get {' '.join(arguments)} exited {done.returncode}:\n{done.stdout[-2000:]}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
