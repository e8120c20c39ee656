"""results.json as JUnit XML: one test case per checker.

Decides what JUnit calls a verdict: invalid is a failure, unknown an error, not-applicable skipped. Must not know
checkers.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import cast

# What XML 1.0 cannot hold, even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, name: str, results: Mapping[str, object]) -> None:
    """Write one run's file. name: of the run."""
    suites = ElementTree.Element("testsuites")
    suites.append(suite(name, results))
    write_xml(path, suites)


def suite(name: str, results: Mapping[str, object]) -> ElementTree.Element:
    """A testsuite element with a case for each checker, and one for the verdict as a whole."""
    checkers = cast(Mapping[str, Mapping[str, object]], results.get("checkers") or {})
    cases = [_case(name, "verdict", str(results.get("verdict")), [str(results.get("sentence", ""))])]
    for key, checker in sorted(checkers.items()):
        reasons = [str(reason) for reason in cast(list[object], checker.get("reasons") or [])]
        witnesses = [
            str(witness.get("summary", "")) for witness in cast(list[dict[str, object]], checker.get("witnesses") or [])
        ]
        cases.append(_case(name, key, str(checker.get("verdict")), reasons + witnesses))
    analysis = cast(Mapping[str, object], results.get("analysis") or {})
    element = ElementTree.Element(
        "testsuite",
        {
            "name": _clean(name),
            "tests": str(len(cases)),
            "failures": str(sum(case.find("failure") is not None for case in cases)),
            "errors": str(sum(case.find("error") is not None for case in cases)),
            "skipped": str(sum(case.find("skipped") is not None for case in cases)),
            "time": f"{float(cast(float, analysis.get('seconds') or 0.0)):.3f}",
        },
    )
    element.extend(cases)
    return element


def crashed_suite(name: str, problem: str) -> ElementTree.Element:
    """A testsuite for a run that gave no verdict."""
    element = ElementTree.Element(
        "testsuite", {"name": _clean(name), "tests": "1", "failures": "0", "errors": "1", "skipped": "0"}
    )
    element.append(_case(name, "verdict", "crash", [problem]))
    return element


def _case(name: str, checker: str, verdict: str, texts: list[str]) -> ElementTree.Element:
    case = ElementTree.Element("testcase", {"classname": f"highwater.{_clean(name)}", "name": _clean(checker)})
    tag = {"valid": None, "invalid": "failure", "not-applicable": "skipped"}.get(verdict, "error")
    if tag is not None:
        lines = [_clean(text) for text in texts if text]
        inner = ElementTree.SubElement(case, tag, {"message": lines[0] if lines else verdict, "type": verdict})
        inner.text = "\n".join(lines)
    return case


def write_xml(path: Path, root: ElementTree.Element) -> None:
    """Write the suites as one JUnit file, whole or not at all."""
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
