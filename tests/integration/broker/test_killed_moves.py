"""Kill -9 anywhere in moves of a replica that is the only one: what was acknowledged is there, once and in order."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.integration.broker.test_moves_between_log_dirs import home, move, other, told
from tests.integration.broker.writing import Writer, create, read
from tests.support.brokers import running_cluster, wait_until

pytestmark = pytest.mark.guarantee("L6")

TOPIC = "alone"
SETTINGS = {"zookeeper.session.timeout.ms": "1500", "log.segment.bytes": "262144", "log.segment.delete.delay.ms": "200"}


def test_only_replica_survives_kills_in_its_moves(tmp_path: Path) -> None:
    rng = random.Random(5)
    dirs = {1: {"log.dirs": f"{tmp_path}/broker-1/a,{tmp_path}/broker-1/b"}}
    with running_cluster(tmp_path, 1, SETTINGS, dirs) as cluster:
        wait_until(lambda: cluster.controller() is not None, "a controller")
        create(cluster, 1, TOPIC)
        broker = cluster.brokers[1]
        writer = Writer(cluster, TOPIC, value_bytes=500)
        try:
            for _ in range(8):
                writer.wait_for_more(100)
                assert move(broker, TOPIC, other(home(broker, TOPIC))) == 0
                time.sleep(rng.uniform(0, 0.1))
                broker.kill()
                broker.start()
                writer.wait_for_more(60)
                wait_until(lambda: len(told(broker, TOPIC)) == 1, "the move is over")
            writer.wait_for_more(100)
        finally:
            writer.stop()
        assert read(cluster, writer.sent, topic=TOPIC) == list(range(writer.sent))
        assert "replica stays offline" not in broker.output
