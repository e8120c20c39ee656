"""Compiled modules of a broker package (docs/adr/0017): whether there are any, and whether a node's Python takes them.

Decides what counts as a compiled module. Must not know kinds of nodes. A compiled module lies beside its source, and a
Python for which it was not built ignores it without an error: the run would then judge other code than intended.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from harness.nodes.base import CommandFailed, Completed

_SUFFIX = ".so"
_QUERY = (
    "import importlib.machinery, platform;"
    "print(platform.python_version(), platform.machine(), *importlib.machinery.EXTENSION_SUFFIXES)"
)


class Runs(Protocol):
    """The part of a node that is needed here."""

    name: str

    def run(self, argv: Sequence[str]) -> Completed:
        """As `harness.nodes.base.Node.run`."""
        ...


def compiled_modules(package: Path) -> list[Path]:
    """Of a package's folder and those below it, in order of their paths."""
    return sorted(path for path in package.rglob(f"*{_SUFFIX}") if path.is_file())


def check_compiled_modules(node: Runs, python: str, package: Path) -> None:
    """CommandFailed when a Python of the node's would run a source although its compiled module lies beside it."""
    found = compiled_modules(package)
    if not found:
        return
    version, machine, *suffixes = node.run([python, "-c", _QUERY]).stdout.split()
    for path in found:
        # The first dot: what follows the last one fits every Python.
        suffix = path.name[path.name.index(".") :]
        if suffix not in suffixes:
            raise CommandFailed(
                f"node {node.name}: its Python {version} on {machine} ({python}) would run the sources instead of"
                f" the compiled modules: it takes *{suffixes[0]}, not {package.name}/{path.relative_to(package)};"
                " let system.source name a broker compiled for that Python, or one without compiled modules"
            )
