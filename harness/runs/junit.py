"""results.json as JUnit XML: one test case per checker.

Decides what JUnit calls a verdict: invalid is a failure, unknown an error, not-applicable skipped. Must not know
checkers, nor how JUnit is written: that is junitparser's.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

_OUTCOMES = {"valid": None, "invalid": Failure, "not-applicable": Skipped}
"""Of a verdict; any other is an error."""
# What XML 1.0 cannot hold, even escaped: no writer of XML looks for these.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, name: str, results: Mapping[str, object]) -> None:
    """Write one run's file. name: of the run."""
    write_suites(path, [suite(name, results)])


def suite(name: str, results: Mapping[str, object]) -> TestSuite:
    """A test suite with a case for each checker, and one for the verdict as a whole."""
    checkers = cast(Mapping[str, Mapping[str, object]], results.get("checkers") or {})
    cases = [_case(name, "verdict", str(results.get("verdict")), [str(results.get("sentence", ""))])]
    for key, checker in sorted(checkers.items()):
        reasons = [str(reason) for reason in cast(list[object], checker.get("reasons") or [])]
        witnesses = [
            str(witness.get("summary", "")) for witness in cast(list[dict[str, object]], checker.get("witnesses") or [])
        ]
        cases.append(_case(name, key, str(checker.get("verdict")), reasons + witnesses))
    made = _suite(name, cases)
    analysis = cast(Mapping[str, object], results.get("analysis") or {})
    made.time = round(float(cast(float, analysis.get("seconds") or 0.0)), 3)
    return made


def crashed_suite(name: str, problem: str) -> TestSuite:
    """A test suite for a run that gave no verdict."""
    return _suite(name, [_case(name, "verdict", "crash", [problem])])


def _suite(name: str, cases: list[TestCase]) -> TestSuite:
    made = TestSuite(_clean(name))
    made.add_testcases(cases)
    return made


def _case(name: str, checker: str, verdict: str, texts: list[str]) -> TestCase:
    case = TestCase(_clean(checker), f"highwater.{_clean(name)}")
    outcome = _OUTCOMES.get(verdict, Error)
    if outcome is not None:
        lines = [_clean(text) for text in texts if text]
        kind = _clean(verdict)
        result = outcome(lines[0] if lines else kind, kind)
        result.text = "\n".join(lines)
        case.result = result
    return case


def write_suites(path: Path, suites: Iterable[TestSuite]) -> None:
    """Write the suites as one JUnit file, whole or not at all."""
    whole = JUnitXml()
    # Not add_testsuite, which makes one of two suites of the same name.
    whole.extend(suites)
    root = ElementTree.fromstring(whole.tostring())
    ElementTree.indent(root)
    part = path.with_name(path.name + ".part")
    ElementTree.ElementTree(root).write(part, encoding="utf-8", xml_declaration=True)
    os.replace(part, path)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
