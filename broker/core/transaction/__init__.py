"""Transactional ids and the state of each one's transaction: what a transaction coordinator may do next. Pure.

Requests come in with the time as a value; what to store in `__transaction_state`, or the error to respond, goes out.
A change counts once the record of it is stored, and the caller says so. Storing, markers and clocks are the caller's.
Source: kafka.coordinator.transaction.TransactionMetadata, TransactionCoordinator; KIP-98, KIP-360, KIP-588, KIP-890.
"""
