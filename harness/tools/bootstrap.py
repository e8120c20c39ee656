"""Make the virtual environment that everything else runs in. Standard library only: it runs before all else.

A Debian Python without `ensurepip` cannot make one; as root the missing package is installed, otherwise the exact
command is named.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Create the environment and install the project with the extras that --extras names. Returns an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, required=True)
    parser.add_argument("--extras", default="lab")
    args = parser.parse_args()
    python = args.venv / "bin" / "python"
    if not _works(python) and not _create(args.venv):
        return 1
    print(
        f"Installing highwater[{args.extras}] into {args.venv} (the first time this takes a minute or two) ...",
        flush=True,
    )
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", f"{ROOT}[{args.extras}]"],
        check=False,
    )
    if done.returncode != 0:
        print("pip could not install highwater's dependencies; its message stands above.", file=sys.stderr)
    return done.returncode


def _works(python: Path) -> bool:
    return python.exists() and subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0


def _create(venv: Path) -> bool:
    if _venv(venv):
        return True
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    command = ["apt-get", "install", "-y", "--no-install-recommends", package]
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-q"], check=False, env=environment, stdout=subprocess.DEVNULL)
        subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL)
        if _venv(venv):
            return True
    print(
        f"{sys.executable} cannot make a virtual environment at {venv}. Run this once, then the same make again:\n"
        f"  sudo {' '.join(command)}",
        file=sys.stderr,
    )
    return False


def _venv(venv: Path) -> bool:
    done = subprocess.run([sys.executable, "-m", "venv", "--clear", venv], capture_output=True, text=True)
    return done.returncode == 0 and _works(venv / "bin" / "python")


if __name__ == "__main__":
    sys.exit(main())
