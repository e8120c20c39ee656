"""Which names are one level of a path of ZooKeeper. Pure. Source: org.apache.zookeeper.common.PathUtils."""

from __future__ import annotations

import re

_NEVER_IN_A_NAME = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


def is_component(name: str) -> bool:
    """Whether ZooKeeper takes this name as one level of a path: `slx/partitions` would be two, `..` the level above."""
    return name not in ("", ".", "..") and _NEVER_IN_A_NAME.search(name) is None
