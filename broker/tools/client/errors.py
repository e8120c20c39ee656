"""What can go wrong for a tool: an error code of a broker, no response, a deadline, or what the user asked for.

Tools print the names that Kafka's Java client gives its exceptions, because people search output for them.
Source: org.apache.kafka.common.protocol.Errors, org.apache.kafka.common.errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.wire.errors import ErrorCode, error_name

_EXCEPTIONS: Final[Mapping[int, str]] = {
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.STALE_CONTROLLER_EPOCH: "ControllerMovedException",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "OffsetMetadataTooLarge",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "DuplicateSequenceException",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMappingException",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeoutException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
}
_TEXTS: Final[Mapping[int, str]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.LEADER_NOT_AVAILABLE: "There is no leader for this topic-partition as an election is under way.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "The broker is not the current leader of the topic-partition.",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out.",
    ErrorCode.MESSAGE_TOO_LARGE: "The request included a message larger than the server will accept.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The request attempted to perform an operation on an invalid topic.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Messages are rejected since there are fewer in-sync replicas than required.",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "Messages are written, but to fewer in-sync replicas than required.",
    ErrorCode.ILLEGAL_GENERATION: "Specified group generation id is not valid.",
    ErrorCode.INVALID_GROUP_ID: "The configured groupId is invalid.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator is not aware of this member.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "Topic with this name already exists.",
    ErrorCode.INVALID_PARTITIONS: "Number of partitions is below 1.",
    ErrorCode.INVALID_CONFIG: "Configuration is invalid.",
    ErrorCode.INVALID_REQUEST: "The broker cannot make sense of the request; its log may say more.",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "The group member's supported protocols are incompatible with those of existing members."
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "The session timeout is not within the range allowed by the broker (as configured by "
        "group.min.session.timeout.ms and group.max.session.timeout.ms)."
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The consumer group has reached its max size.",
    ErrorCode.FENCED_INSTANCE_ID: (
        "The broker rejected this static consumer since another consumer with the same group.instance.id has "
        "registered with a different member.id."
    ),
    ErrorCode.KAFKA_STORAGE_ERROR: "Disk error when trying to access log file on the disk.",
    ErrorCode.INVALID_TIMESTAMP: "The timestamp of the message is out of acceptable range.",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: (
        "The requesting client does not support the compression type of given partition."
    ),
    ErrorCode.INVALID_RECORD: "This record has failed the validation on the broker and hence will be rejected.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
    ErrorCode.LOG_DIR_NOT_FOUND: "The user-specified log directory is not found in the broker config.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    ),
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "The transactionalId could not be found.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
}

RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Codes after which the same request may succeed. Source: the subclasses of RetriableException."""


class ToolError(Exception):
    """Why a tool cannot do what it was asked for, in words for its user."""


class BrokerError(ToolError):
    """An error code that a broker answered. message: the broker's own, else what the code means. about: the partition
    that it was about, where the message does not say it.
    """

    def __init__(self, code: int, message: str | None = None, about: tuple[str, int] | None = None) -> None:
        self.code = code
        self.message = message or _TEXTS.get(code) or f"{error_name(code)} (error {code})"
        if about is not None:
            self.message += f" ({about[0]}-{about[1]})"
        super().__init__(self.message)

    @property
    def java(self) -> str:
        """As Kafka's tools print it: the name of an exception, and the message."""
        return f"org.apache.kafka.common.errors.{exception_name(self.code)}: {self.message}"


class Unreachable(ToolError):
    """A request without a response: not connected, broken off, or too late."""


class Unresolvable(Unreachable):
    """A broker whose host has no address."""


class TimedOut(ToolError):
    """The deadline of a whole operation is over; `last` says what stood in the way at the end."""

    def __init__(self, what: str, last: Exception | None) -> None:
        because = "" if last is None else f" (at the end: {last})"
        super().__init__(f"Timed out waiting for a node assignment. Call: {what}{because}")
        self.last = last


def exception_name(code: int) -> str:
    """`UNKNOWN_MEMBER_ID` is `UnknownMemberIdException` in Java."""
    if (known := _EXCEPTIONS.get(code)) is not None:
        return known
    return "".join(word.capitalize() for word in error_name(code).split("_")) + "Exception"


def java_name(error: Exception) -> str:
    """An error as Kafka's tools print the cause of a failure."""
    if isinstance(error, BrokerError):
        return error.java
    if isinstance(error, TimedOut):
        return f"org.apache.kafka.common.errors.TimeoutException: {error}"
    return str(error)


def check(code: int, message: str | None = None) -> None:
    """Raises BrokerError unless the code is 0."""
    if code:
        raise BrokerError(code, message)
