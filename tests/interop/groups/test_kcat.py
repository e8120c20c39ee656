"""kcat reads with a group (-G), shares it with another, and goes on where the group ended."""

from __future__ import annotations

import subprocess

import pytest

from tests.interop.groups.test_members import ALL, Join, Send, committed
from tests.support.brokers import Cluster
from tests.support.group_members import await_members, fresh

pytestmark = pytest.mark.guarantee("K1", "group-rules")


def command(kcat: str, cluster: Cluster, group: str, topic: str, *options: str) -> list[str]:
    settings = ("-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000")
    return [kcat, "-q", "-b", cluster.bootstrap, *settings, *options, "-G", group, topic]


def read(kcat: str, cluster: Cluster, group: str, topic: str, count: int) -> set[bytes]:
    words = command(kcat, cluster, group, topic, "-c", str(count))
    return set(subprocess.run(words, capture_output=True, check=True, timeout=60).stdout.split())


def test_kcat_goes_on_where_its_group_ended(cluster: Cluster, topic: str, send: Send, kcat: str) -> None:
    group = fresh("g")
    first = send(0, 60)
    assert read(kcat, cluster, group, topic, 60) == first
    assert committed(cluster, group, topic) == dict.fromkeys(ALL, 20)
    second = send(60, 90)
    assert read(kcat, cluster, group, topic, 30) == second


def test_kcat_shares_a_group_with_another_client(
    cluster: Cluster, topic: str, join: Join, send: Send, kcat: str
) -> None:
    group = fresh("g")
    member = join("confluent-kafka", group)
    await_members(lambda: member.owned == ALL, "the first owns all", [member])
    other = subprocess.Popen(command(kcat, cluster, group, topic, "-u"), stdout=subprocess.PIPE)
    try:
        await_members(lambda: 0 < len(member.owned) < 3, "both share", [member])
        sent = send(0, 90)
        assert other.stdout is not None
        mine = {value for number, value in enumerate(sorted(sent, key=int)) if number % 3 in member.owned}
        theirs = {other.stdout.readline().strip() for _ in range(90 - len(mine))}
        await_members(lambda: member.values == mine, "all is read", [member])
        assert theirs == sent - mine
    finally:
        other.terminate()
        other.communicate(timeout=30)
