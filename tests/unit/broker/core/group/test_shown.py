"""What a group shows of itself: descriptions and subscribed topics."""

from __future__ import annotations

import pytest

from broker.core.group.description import DescribedMember
from broker.core.group.subscription import subscribed_topics
from tests.support.groups import DELAY_MS, WALL_MS, DrivenGroup, joining, subscription

pytestmark = pytest.mark.guarantee("group-rules")


def consumer(*topics: str) -> tuple[tuple[str, bytes], ...]:
    return (("range", subscription(*topics)),)


def test_stable_group_shows_protocol_metadata_and_assignments() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining(instance="i"))
    shown = group.group.describe()
    assert (shown.state.value, shown.protocol_type, shown.protocol) == ("Stable", "consumer", "range")
    assert shown.members == (DescribedMember(member, "i", "client", "/127.0.0.1", b"r", member.encode()),)


def test_rebalancing_group_shows_neither_protocol_nor_assignments() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining())
    group.join(joining())
    shown = group.group.describe()
    assert (shown.state.value, shown.protocol_type, shown.protocol) == ("PreparingRebalance", "consumer", "")
    assert shown.members[0] == DescribedMember(member, None, "client", "/127.0.0.1", b"", b"")


def test_unused_group_shows_nothing() -> None:
    shown = DrivenGroup().group.describe()
    assert (shown.state.value, shown.protocol_type, shown.protocol, shown.members) == ("Empty", "", "", ())


def test_state_is_stamped_with_wall_time() -> None:
    group = DrivenGroup()
    group.pass_ms(5_000)
    group.join(joining())
    assert group.group.current_state_timestamp == WALL_MS + 6_000
    group.pass_ms(DELAY_MS)
    assert group.group.current_state_timestamp == WALL_MS + 6_000 + DELAY_MS


def test_subscribed_topics_are_those_of_all_members() -> None:
    group = DrivenGroup()
    group.stable(joining(protocols=consumer("a", "b")), joining(protocols=consumer("b", "c")))
    assert group.group.is_consumer_group
    assert group.group.subscribed_topics == frozenset({"a", "b", "c"})
    assert group.group.is_subscribed_to("a")
    assert not group.group.is_subscribed_to("d")


def test_group_that_lost_its_members_is_subscribed_to_nothing() -> None:
    group = DrivenGroup()
    [member] = group.stable(joining(protocols=consumer("a")))
    group.leave((member, None))
    assert group.group.subscribed_topics == frozenset()
    assert not group.group.is_subscribed_to("a")


def test_topics_are_not_known_where_one_members_metadata_is_not_readable() -> None:
    group = DrivenGroup()
    group.stable(joining(protocols=consumer("a")), joining(protocols=(("range", b"\x00"),)))
    assert group.group.subscribed_topics is None
    assert group.group.is_subscribed_to("anything")


def test_topics_of_other_protocol_types_are_not_known() -> None:
    group = DrivenGroup()
    group.stable(joining(protocol_type="connect", protocols=consumer("a")))
    assert not group.group.is_consumer_group
    assert group.group.subscribed_topics is None


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        b"\x00\x00\x7f\xff\xff\xff",
        b"\x00\x00\xff\xff\xff\xff",
        b"\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff",
        b"\x00\x00\x00\x00\x00\x01\x00\x02\xff\xfe\xff\xff\xff\xff",
        subscription("a")[:-1],
        subscription("a")[:-4] + b"\x7f\xff\xff\xff",
    ],
)
def test_bytes_that_are_no_subscription_subscribe_to_nothing_known(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None


def test_what_later_versions_add_is_not_read() -> None:
    later = b"\x00\x03" + subscription("a", "b")[2:] + b"\x00\x00\x00\x00\x00\x00\x00\x07\xff\xff"
    assert subscribed_topics(later) == frozenset({"a", "b"})
