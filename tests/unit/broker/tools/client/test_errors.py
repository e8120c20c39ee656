from __future__ import annotations

from broker.tools.client.errors import BrokerError
from broker.wire.errors import ErrorCode


def test_error_of_a_partition_names_it() -> None:
    error = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, about=("orders", 7))
    assert str(error) == "This server does not host this topic-partition. (orders-7)"
    assert error.java == f"org.apache.kafka.common.errors.UnknownTopicOrPartitionException: {error}"


def test_error_of_a_group_names_the_settings_that_it_is_about() -> None:
    assert "group.min.session.timeout.ms" in str(BrokerError(ErrorCode.INVALID_SESSION_TIMEOUT))
