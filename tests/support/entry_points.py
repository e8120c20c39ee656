"""Entry points as an installer leaves them on sys.path."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, group: str, *points: str, package: str = "toy") -> None:
    """A distribution in this folder that has these entry points (`name = module:attribute`) in one group."""
    info = folder / f"{package}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n" + "\n".join(points) + "\n")
