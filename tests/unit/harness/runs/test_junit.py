from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping

import pytest

from harness.runs import junit

pytestmark = pytest.mark.guarantee("H7")

RESULTS: dict[str, object] = {
    "verdict": "invalid",
    "sentence": "Invalid: one record was lost.",
    "checkers": {
        "lost-write": {
            "verdict": "invalid",
            "reasons": ["1 of 10 acknowledged records is gone"],
            "witnesses": [{"summary": "value 17 at hw-2 offset 301"}],
        },
        "duplicate": {"verdict": "valid", "reasons": [], "witnesses": []},
        "lost-tail": {"verdict": "unknown", "reasons": ["n2 never led hw-1"]},
        "controller": {"verdict": "not-applicable", "reasons": ["no event log"]},
    },
    "analysis": {"seconds": 12.5},
}


def suite(name: str, results: Mapping[str, object]) -> ElementTree.Element:
    """As a parser of XML that knows nothing of JUnit reads the suite."""
    return ElementTree.fromstring(junit.suite(name, results).tostring())


def test_suite_has_a_case_for_the_verdict_and_for_each_checker() -> None:
    element = suite("demo", RESULTS)
    assert [case.get("name") for case in element] == ["verdict", "controller", "duplicate", "lost-tail", "lost-write"]
    assert {key: element.get(key) for key in ("tests", "failures", "errors", "skipped", "time")} == {
        "tests": "5",
        "failures": "2",
        "errors": "1",
        "skipped": "1",
        "time": "12.5",
    }


def test_suite_invalid_is_a_failure_with_reasons_and_witnesses() -> None:
    failure = suite("demo", RESULTS).find("testcase[@name='lost-write']/failure")
    assert failure is not None
    assert failure.get("message") == "1 of 10 acknowledged records is gone"
    assert failure.text == "1 of 10 acknowledged records is gone\nvalue 17 at hw-2 offset 301"


def test_suite_unknown_is_an_error_valid_is_empty() -> None:
    element = suite("demo", RESULTS)
    assert element.find("testcase[@name='lost-tail']/error") is not None
    case = element.find("testcase[@name='duplicate']")
    assert case is not None
    assert len(case) == 0


def test_suite_text_that_xml_cannot_hold_is_replaced() -> None:
    element = suite("demo", {"verdict": "unknown", "sentence": "a\x00b\x1b[0m"})
    error = element.find("testcase/error")
    assert error is not None
    assert error.text == "a\ufffdb\ufffd[0m"


def test_crashed_suite_is_an_error() -> None:
    element = ElementTree.fromstring(junit.crashed_suite("demo", "no nodes").tostring())
    assert (element.get("errors"), element.get("failures")) == ("1", "0")
    error = element.find("testcase/error")
    assert error is not None
    assert error.get("message") == "no nodes"
