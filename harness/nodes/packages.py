"""Packages that a system under test brings to its nodes, beside or instead of the package `broker`.

Decides where they lie on a node, and what is checked before a daemon is started with them. Must not know systems.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.nodes.base import Node
from harness.nodes.compiled import Runs, check_compiled_modules


def put_packages(node: Node, packages: Sequence[Path]) -> str:
    """Copy folders of packages, and files of single modules, to a node; returns the value for its PYTHONPATH.

    `node.broker_path`, with the dependencies of the package `broker`, is the end of that value. Raises ValueError for a
    path that is no package and no module; CommandFailed where the node's Python cannot import all of them.
    """
    for package in packages:
        if not (package / "__init__.py").is_file() and not (package.suffix == ".py" and package.is_file()):
            raise ValueError(f"{package}: neither the folder of a package (no __init__.py) nor the file of a module")
    folder = f"{node.root}/packages"
    path = f"{folder}:{node.broker_path}"
    with tempfile.TemporaryDirectory() as name:
        for package in packages:
            check_compiled_modules(node, node.python, package)
            copy = Path(name) / package.name
            copy_code(package, copy)
            node.put(copy, f"{folder}/{package.name}")
    require_imports(node, node.python, path, [package.stem for package in packages])
    return path


def require_imports(node: Runs, python: str, path: str, names: Sequence[str]) -> None:
    """Raises CommandFailed where the node's Python cannot import one of these with that PYTHONPATH."""
    if names:
        node.run(["env", f"PYTHONPATH={path}", python, "-c", f"import {', '.join(names)}"])


def copy_code(package: Path, target: Path) -> None:
    """Copy the folder of a package, or the file of a module, to exactly that path, without what Python compiled."""
    if package.is_file():
        shutil.copy2(package, target)
    else:
        shutil.copytree(package, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
