"""What a broker asks of the controller; the caller waits for the answer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from broker.core.controller.cluster_state import LeaderAndIsr
from broker.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)

if TYPE_CHECKING:
    from .conftest import Node


def alter(
    node: Node, state: LeaderAndIsr, isr: dict[int, int], sender_epoch: int, topic_id: str
) -> AlterPartitionResponse:
    request = AlterPartitionRequest(
        state.leader,
        sender_epoch,
        [
            RequestTopicData(
                topic_id,
                [
                    RequestPartitionData(
                        partition_index=0,
                        leader_epoch=state.leader_epoch,
                        new_isr_with_epochs=[BrokerState(*member) for member in isr.items()],
                        partition_epoch=state.partition_epoch,
                    )
                ],
            )
        ],
    )
    answer: AlterPartitionResponse = ask(lambda on_answer: node.controller.alter_partition(request, 3, on_answer))
    return answer


def ask(send: Any) -> Any:
    done = threading.Event()
    answers: list[Any] = []

    def on_response(answer: Any) -> None:
        answers.append(answer)
        done.set()

    send(on_response)
    assert done.wait(20)
    return answers[0]
