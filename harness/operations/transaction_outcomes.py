"""Which errors prove that a request of a transactional producer had no effect. All else is `info`.

Decides ok / fail / info, as `outcomes` does for plain sends; the lists are closed in the same way. Source:
TransactionCoordinator.endTransaction, handleAddPartitionsToTransaction, TransactionStateManager.appendTransactionToLog;
ProducerAppendInfo.maybeValidateDataBatch, ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

from broker.wire.errors import ErrorCode
from harness.operations.op import Outcome
from harness.operations.outcomes import NOTHING_SENT, send_outcome

FENCED = frozenset(
    error.name
    for error in (
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
)
"""The producer's epoch is not the newest of its id, for good: nothing that it sends has an effect any more."""

SEND_REFUSED = FENCED | {
    # The coordinator does not confirm that the partition is in the open transaction, before the batch is appended.
    ErrorCode.INVALID_TXN_STATE.name,
    ErrorCode.CONCURRENT_TRANSACTIONS.name,
    # Sequences are held against the producer's state before the batch is appended.
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.name,
}

REFUSED = FENCED | {
    # Held against the transaction's state before anything is stored. Of an InitProducerId the second may come after
    # the predecessor was fenced: no producer came of it all the same.
    ErrorCode.INVALID_TXN_STATE.name,
    ErrorCode.CONCURRENT_TRANSACTIONS.name,
    # The coordinator has not read its partition, and knows nothing that it could change.
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name,
    # Refused by the request handler.
    ErrorCode.INVALID_REQUEST.name,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT.name,
    ErrorCode.UNSUPPORTED_VERSION.name,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name,
    ErrorCode.GROUP_AUTHORIZATION_FAILED.name,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED.name,
}
MAY_BE_DECIDED = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name})
"""Of an EndTxn alone: Kafka looks its id up once more when the decision is in the log, and answers so where it has
begun to read that partition anew since (it was made leader once more). Then the decision is carried out all the same.
"""
# Absent on purpose:
#   NOT_COORDINATOR: a coordinator that is deposed while its record is being replicated answers with it, too.
#   COORDINATOR_NOT_AVAILABLE: stands for records that were appended and not replicated in time.


def transactional_send_outcome(error: str | None) -> Outcome:
    """Outcome of a send of a transactional producer."""
    return "fail" if error in SEND_REFUSED else send_outcome(error)


def end_outcome(error: str | None) -> Outcome:
    """Outcome of EndTxn."""
    return "info" if error in MAY_BE_DECIDED else coordinator_outcome(error)


def coordinator_outcome(error: str | None) -> Outcome:
    """Outcome of InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn or TxnOffsetCommit."""
    if error is None:
        return "ok"
    return "fail" if error in REFUSED or error in NOTHING_SENT else "info"
