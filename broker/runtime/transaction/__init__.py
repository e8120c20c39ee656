"""The coordinator of transactions, the markers that end them, and the verification of what they write.

Requests of producers and of other brokers come in; records of `__transaction_state` go out through `coordinators`,
markers through `replicas` here and by WriteTxnMarkers elsewhere. The rules are `broker.core.transaction`.
Source: kafka.coordinator.transaction; KIP-98, KIP-360, KIP-890.
"""
