"""UpdateMetadata requests as a controller writes them."""

from __future__ import annotations

from broker.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

EPOCH = 50
OLD_ID = "AAECAwQFBgcICQoLDA0ODw"
NEW_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def broker(id_: int) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(id_, [UpdateMetadataEndpoint(9000 + id_, f"h{id_}", "PLAINTEXT", 0)], None)


def partition(leader: int, replicas: list[int], index: int = 0, epoch: int = 3) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(index, 1, leader, epoch, replicas, 0, replicas, [])


def update(
    states: dict[str, list[UpdateMetadataPartitionState]],
    live: tuple[int, ...] = (1, 2),
    controller_epoch: int = 1,
    broker_epoch: int = EPOCH,
    topic_id: str = OLD_ID,
    whole: bool = False,
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[UpdateMetadataTopicState(name, topic_id, parts) for name, parts in states.items()],
        live_brokers=[broker(id_) for id_ in live],
        whole=whole,
    )
