"""What the lab knows of each topic that is made anew: the id that its name has now, and what is to be done next.

Pure. Decides what an administrator does next, and what its answer tells. Must not know clients. A request that deletes
names an id, so that it can never take a later topic, however late it is carried out; one that makes a topic has no id
before its answer. So where an answer is missing the administrator asks which id the name has. What one broker says of
that may be old: the worst that follows is a request that is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from harness.operations.op import Outcome

MAKE, DELETE, ASK = "create_topic", "delete_topic", "describe_topic"
Stage = Literal["there", "ending", "gone", "unsure"]
_UNKNOWN_ID = "UNKNOWN_TOPIC_ID"


@dataclass(frozen=True, slots=True)
class Life:
    """Of one name. topic_id: the newest that it had as far as is known, empty at first; earlier: those before, in
    order. since_ns: CLOCK_MONOTONIC when the newest was heard of; lives_ns: for how long it is to live.

    stage: there: it is used. ending: its deletion was asked for, and is to be asked for again. gone: it is to be made
    anew. unsure: an answer is missing.
    """

    topic_id: str = ""
    earlier: tuple[str, ...] = ()
    stage: Stage = "gone"
    since_ns: int = 0
    lives_ns: int = 0

    @property
    def former(self) -> str:
        """The id before the newest; empty where there was none."""
        return self.earlier[-1] if self.earlier else ""

    def next(self, now_ns: int) -> str:
        """What an administrator does at this time: an operation's name. `describe_topic` also where nothing is due."""
        match self.stage:
            case "there":
                return DELETE if now_ns - self.since_ns >= self.lives_ns else ASK
            case "ending":
                return DELETE
            case "gone":
                return MAKE
            case "unsure":
                return ASK

    def begun(self, f: str) -> Life:
        """Such an operation is about to be sent. Whatever becomes of a deletion, the topic may be gone from here on."""
        return replace(self, stage="ending") if f == DELETE else self

    def after(self, f: str, outcome: Outcome, error: str | None, topic_id: str, now_ns: int, lives_ns: int) -> Life:
        """topic_id: as the answer told it, empty where it told none. lives_ns: of a new life, should this be one."""
        if topic_id and topic_id != self.topic_id and topic_id not in self.earlier:
            earlier = (*self.earlier, self.topic_id) if self.topic_id else ()
            return Life(topic_id, earlier, "there", now_ns, lives_ns)
        match f:
            case "delete_topic" if outcome == "ok" or error == _UNKNOWN_ID:
                return replace(self, stage="gone")
            case "create_topic" if outcome == "info":
                return replace(self, stage="unsure")
            case "describe_topic" if outcome == "ok" and self.stage == "unsure":
                return replace(self, stage="ending" if topic_id and topic_id == self.topic_id else "gone")
            case _:
                return self
