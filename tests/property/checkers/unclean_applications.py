"""What an application's group sees around an unclean election, and whether that can have come of it.

In the language of `test_unclean_stories`: broker 2 is elected from outside the ISR at AT_MS.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.support.application_stories import Application
from tests.support.histories import Story

AFTER_MS = 600


def _sent(story: Story) -> None:
    for nth in range(4):
        story.send(nth + 1, nth, process=nth, invoked=2 * nth + 1, completed=2 * nth + 2)


def _replaced(story: Story) -> None:
    """The last record is lost to the group with the election, and another one processed in its place."""
    _sent(story)
    application = Application(story, "at-least-once")
    application.poll("a", 0, [1, 2, 3])
    application.process("a", [1, 2, 3])
    application.commit("a", 3)
    story.send(9, outcome="info", process=9, invoked=AFTER_MS - 20, completed=AFTER_MS - 19)
    story.now = AFTER_MS
    application.poll("a", 3, [9])
    application.process("a", [9])
    application.commit("a", 4)
    application.drained(4)


def _passed_over(story: Story) -> None:
    """The group had passed over it before, as another reader saw."""
    _sent(story)
    application = Application(story, "at-least-once")
    story.poll(0, [(nth, nth + 1) for nth in range(4)], process=900, consumer="reader")
    application.poll("a", 0, [1, 2, 3])
    application.process("a", [1, 2, 3])
    application.poll("b", 4, [])
    application.commit("b", 4)
    application.drained(4)


def _again(story: Story, *, after: bool) -> None:
    _sent(story)
    application = Application(story, "at-most-once")
    for member in "ab":
        application.poll(member, 0, [1])
        application.commit(member, 1)
        application.process(member, [1])
        story.now = max(story.now, AFTER_MS if after else 0)
    application.drained(1)


APPLICATIONS: dict[str, tuple[Callable[[Story], None], set[str]]] = {
    "application-replaced": (_replaced, set()),
    "application-passed-over": (_passed_over, {"at-least-once"}),
    "application-again": (lambda story: _again(story, after=True), set()),
    "application-again-before": (lambda story: _again(story, after=False), {"at-most-once"}),
}
