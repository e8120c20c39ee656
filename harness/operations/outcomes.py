"""Which errors prove that a send, or a deletion, had no effect. Everything that is not listed here is `info`.

Decides ok / fail / info. Must not know sockets or the history. Invariant: the lists are closed; a code is added only
with the reason why no broker responds with it after an append. Missing one costs knowledge; a wrong one invents a loss.
Source: kafka.server.KafkaApis.handleProduceRequest, ReplicaManager.appendRecords, DelayedProduce, UnifiedLog.append,
analyzeAndValidateProducerState.
"""

from __future__ import annotations

from broker.wire.errors import ErrorCode
from harness.operations.op import Outcome

# In responses from before the append only, of every broker that follows Kafka:
BEFORE_APPEND = frozenset(
    error.name
    for error in (
        # The ISR is counted under the same lock as the append, before it. Its sibling NOT_ENOUGH_REPLICAS_AFTER_APPEND
        # is absent: there the record is in the log.
        ErrorCode.NOT_ENOUGH_REPLICAS,
        # Sizes and CRCs are checked over the whole request part before anything is staged.
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        # Batch and record validation: same place.
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        # Refused by the request handler, which never reaches the log.
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        # A producer's epoch and sequence are compared before anything is staged. What they refuse may be in the log all
        # the same, by an earlier request with the same batch: `fail` is said of this request alone.
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    )
)
# Absent on purpose:
#   NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR: a produce that waits in purgatory
#     ends with these when the partition moves, is deleted or goes offline after the append.
#   REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND: by definition after the append.
#   LEADER_NOT_AVAILABLE, BROKER_NOT_AVAILABLE, NETWORK_EXCEPTION, UNKNOWN_SERVER_ERROR: say nothing about the log.

BEFORE_DELETION = frozenset(
    error.name
    for error in (
        # The offset is compared with the high watermark before the log start is raised.
        ErrorCode.OFFSET_OUT_OF_RANGE,
        # The topic's cleanup.policy, its name, the caller and the version: refused before the log is looked for.
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    )
)
"""What certainly deleted nothing. Source: ReplicaManager.deleteRecordsOnLocalLog, Partition.deleteRecordsOnLeader."""
# Absent on purpose: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR and REQUEST_TIMED_OUT end
# the wait for the other replicas, too, when the leader's own log start is raised already.

NO_LEADER = "no-leader-known"
REFUSED = "connection-refused"
NOT_CONNECTED = "not-connected"
RESET = "connection-reset"
TIMEOUT = "timeout"
MALFORMED = "malformed"
CLIENT_ERROR = "client-error"
"""An error that a real client made up: Kafka has no name for it."""
CLIENT_DIED = "client-died"
"""The process of a real client ended, or did not answer and was killed: what became of its calls is not known."""

NOTHING_SENT = frozenset({NO_LEADER, REFUSED, NOT_CONNECTED})
"""The request's first byte was never handed to the kernel."""

NO_RESPONSE = frozenset({RESET, TIMEOUT, MALFORMED})
"""A request went out and no response to it can be read."""


def send_outcome(error: str | None) -> Outcome:
    """Outcome of a send. error: Kafka's name, one of the names above, or None for success."""
    if error is None:
        return "ok"
    return "fail" if error in BEFORE_APPEND or error in NOTHING_SENT else "info"


def deletion_outcome(error: str | None) -> Outcome:
    """Outcome of a delete_records."""
    if error is None:
        return "ok"
    return "fail" if error in BEFORE_DELETION or error in NOTHING_SENT else "info"


def read_outcome(error: str | None) -> Outcome:
    """Outcome of a poll or list_offsets. An error in the response is a `fail`: the read had no effect.

    Without a response it is `info`: the read had no effect either way, but the client is closed, as a real one would
    be.
    """
    if error is None:
        return "ok"
    return "info" if error in NO_RESPONSE else "fail"
