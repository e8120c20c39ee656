"""What of a story is drawn where."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from harness.report.background import lanes
from harness.report.diagram import svg
from harness.report.steps import Step
from harness.report.story import findings
from tests.support.sample_run import RESULTS, RUN, SERIES

pytestmark = pytest.mark.guarantee("V6")

LANES = ("clients", "n1", "n2")


def drawn(*steps: Step, columns: tuple[str, ...] = LANES) -> ElementTree.Element:
    return ElementTree.fromstring(svg(steps, columns))


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [one for one in root.iter() if name in one.get("class", "").split()]


def step(kind: str, lane: str, to: str | None = None, *, stops: bool = False) -> Step:
    return Step(1.0, kind, (lane,), f"{kind} & more", f"{kind} <x>", to, stops=stops)


def test_arrow_goes_from_lane_to_lane() -> None:
    root = drawn(step("send", "clients", "n2"), step("ack", "n2", "clients"))
    (send,), (ack,) = of_class(root, "send"), of_class(root, "ack")
    there, back = send.find("line"), ack.find("line")
    assert there is not None
    assert back is not None
    assert float(there.attrib["x1"]) < float(there.attrib["x2"])
    assert float(back.attrib["x1"]) > float(back.attrib["x2"])
    assert [text.text for text in send.iter("text")] == ["send <x>"]


def test_step_that_stays_is_a_box_on_each_of_its_lanes() -> None:
    root = drawn(Step(1.0, "fault", ("n1", "n2"), "cut", "cut"))
    assert len(list(of_class(root, "fault")[0].iter("rect"))) == 2


def test_lane_that_the_run_does_not_name_is_drawn_too() -> None:
    texts = [text.text for text in drawn(step("ack", "broker 9", "clients")).iter("text")]
    assert "broker 9" in texts


def test_bar_reaches_from_the_copy_to_the_cut() -> None:
    root = drawn(step("append", "n1"), step("copy", "n1", "n2"), step("commit", "n1"), step("cut", "n2"))
    first, second = of_class(root, "holds")
    # n1 holds it until the end, n2 for two rows.
    assert float(first.attrib["height"]) > float(second.attrib["height"]) == 68.0


def test_record_that_a_later_leader_appends_there_has_another_bar() -> None:
    root = drawn(step("append", "n1"), step("append", "n2"), step("cut", "n1"), step("copy", "n2", "n1"))
    assert (len(of_class(root, "holds")), len(of_class(root, "another"))) == (1, 2)


def test_node_is_marked_while_it_is_stopped() -> None:
    root = drawn(step("fault", "n1", stops=True), step("send", "clients", "n2"), step("healed", "n1"))
    (stopped,) = of_class(root, "stopped")
    assert float(stopped.attrib["y2"]) - float(stopped.attrib["y1"]) == 68.0


def test_long_label_is_shortened_and_whole_on_pointing() -> None:
    root = drawn(Step(1.0, "isr", ("n1",), "all of it", "x" * 90))
    (group,) = of_class(root, "isr")
    (label,) = group.iter("text")
    assert (label.text or "").endswith("…")
    assert [title.text for title in group.iter("title")] == ["all of it"]


def test_sample_story_is_drawn_with_a_lane_for_each_broker() -> None:
    (finding,) = findings(RUN, RESULTS, SERIES)
    assert lanes(RUN) == ("clients", "n1", "n2", "n3")
    root = drawn(*finding.steps, columns=lanes(RUN))
    assert len(of_class(root, "step")) == len(finding.steps)
    assert len(of_class(root, "head")) == 4
