"""Has the broker that a run is about say what is wrong with the run file's settings, before anything starts.

Decides which settings are asked about and how an answer is worded. Must not know any setting: the broker's own code, of
the source that the run uses, is asked in a process of its own. A source without such a check is not asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError, show

_MODULE = "broker.config.check"
_TIMEOUT_S = 60.0


def check_settings(plan: Plan, source: Path) -> None:
    """Raises PlanError with file and line for the first setting that cannot work, or that the broker does not know."""
    if not (source / "broker" / "config" / "check.py").is_file():
        return
    brokers = [plan.system.settings, *(plan.system.settings_of(broker) for broker in sorted(plan.system.broker))]
    asked = json.dumps({"broker": [dict(one) for one in brokers], "topic": dict(plan.topic.config)}, sort_keys=True)
    for problem in json.loads(_answer(source, asked)):
        raise _error(plan, problem)


def _error(plan: Plan, problem: dict[str, object]) -> PlanError:
    name, index = problem["name"], int(str(problem["index"]))
    broker = sorted(plan.system.broker)[index - 1] if index else None
    table = "topic.config" if problem["scope"] == "topic" else "system.settings"
    if broker is not None and (name is None or name in plan.system.broker[broker]):
        table = f"system.broker.{broker}"
    if name is None:
        return PlanError(f"{plan.place(table)}: {table}: {problem['problem']}")
    given = plan.topic.config if problem["scope"] == "topic" else plan.system.settings_of(broker or 0)
    like = f" (did you mean {problem['like']}?)" if problem["like"] else ""
    key = f"{table}.{name}"
    return PlanError(f"{plan.place(key)}: {key}: {show(given[str(name)])}: {problem['problem']}{like}")


@lru_cache(maxsize=256)
def _answer(source: Path, asked: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, "-m", _MODULE],
        input=asked,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
        env=environment,
        cwd=source,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        raise PlanError(f"system.source: {source}: its check of settings ended with {done.returncode}: {last}")
    return done.stdout
