"""Two recorded runs, `kip-101-high-watermark` (invalid) and `kip-101-leader-epoch` (valid), for tests."""

from __future__ import annotations

import tarfile
from pathlib import Path

RECORDED = Path(__file__).parents[1] / "property" / "checkers" / "recorded"


def unpacked(folder: Path) -> list[Path]:
    """Both as they were recorded, each in a folder of its name below this one."""
    for path in sorted(RECORDED.glob("*.tar.gz")):
        with tarfile.open(path) as archive:
            # Python has filters from 3.11.4 on, and from 3.12 on warns where none is named.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(folder / path.name.removesuffix(".tar.gz"))
    return sorted(folder.iterdir())
