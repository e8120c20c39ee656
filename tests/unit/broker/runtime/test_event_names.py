"""What lines of the event log call a partition whose topic is made anew: by its life, whoever writes the line."""

from __future__ import annotations

import pytest

from tests.support.memory_node import TOPIC, TOPIC_ID
from tests.support.settled_cluster import settled

pytestmark = pytest.mark.guarantee("V2")

NAMED = {
    *("recovered", "become_leader", "become_follower", "append", "hw", "ack", "visible"),
    *("isr_propose", "isr_commit", "fetch_sent", "fetch_received", "fetch_answered"),
}
"""Events of a partition that the cluster below goes through."""


@pytest.mark.parametrize("anew", [True, False])
def test_every_line_names_the_life_of_a_topic_that_is_made_anew(anew: bool) -> None:
    cluster = settled(settings={"lab.event.log.topic.ids": TOPIC} if anew else {})
    cluster.produce(1, "a")
    cluster.settle()
    cluster.fetch(1, 0)
    cluster.list_offsets(1, -1)
    cluster.kill(3)
    cluster.produce(1, "b")
    cluster.advance(15_000)
    cluster.settle()
    seen: dict[str, set[str]] = {}
    for node in cluster.nodes.values():
        for events in node.events:
            events.flush()
            for line in events.events:
                names = [part[0] for part in line["parts"]] if "parts" in line else [line["p"]] if "p" in line else []
                seen.setdefault(line["e"], set()).update(names)
    assert seen.keys() >= NAMED
    name = f"{TOPIC}~{TOPIC_ID}-0" if anew else f"{TOPIC}-0"
    assert set().union(*seen.values()) == {name}
