"""server.properties of a broker under test, and where on its node a broker keeps what.

Decides which settings a run needs whatever its run file says. Must not know daemons or time-outs.
"""

from __future__ import annotations

from harness.nodes.base import Node
from harness.plan.plan import Plan
from harness.systems.view import broker_id

PORT = 9092


def server_properties(plan: Plan, node: Node, zookeeper_connect: str) -> str:
    """The broker's configuration file: what the run needs, then [system.settings], then [system.broker.N]."""
    listener = f"PLAINTEXT://{node.address}:{PORT}"
    values = {
        "broker.id": str(broker_id(node.name)),
        "listeners": listener,
        "advertised.listeners": listener,
        "log.dirs": data_folder(node),
        "zookeeper.connect": zookeeper_connect,
        "lab.event.log": event_log_path(node),
        **({"lab.event.log.topic.ids": ",".join(plan.remade_topics)} if plan.remade_topics else {}),
        # The drain makes every replica lead in turn: leadership that goes back by itself would spoil a round.
        "auto.leader.rebalance.enable": "false",
        # The drain's librdkafka has __consumer_offsets made, whatever the workload: each of its partitions costs every
        # run time and evidence, and no workload needs Kafka's 50.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        **plan.system.settings_of(broker_id(node.name)),
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


def data_folder(node: Node) -> str:
    """Path on the node of the folder in which its broker keeps logs and checkpoints."""
    return f"{node.root}/data"


def event_log_path(node: Node) -> str:
    """Path on the node of its broker's event log."""
    return f"{node.root}/events.jsonl"
