"""What a run's run.json says of its plan, for those who read runs that are over.

Takes the file as it was read, of this version or an older one, and of an imported run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_compacted(run: Mapping[str, Any]) -> bool:
    """Whether a broker compacts the load's topic: by the topic's policy, or where it has none by the broker's own."""
    policy = _table(_table(run.get("topic")).get("config")).get("cleanup.policy")
    system = _table(run.get("system"))
    own = [_table(settings) for settings in _table(system.get("broker")).values()]
    of_brokers = [settings.get("log.cleanup.policy") for settings in (_table(system.get("settings")), *own)]
    return any("compact" in str(one) for one in ([policy] if policy is not None else of_brokers))


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
