"""What the coordinators of groups and of transactions share: a broker coordinates what it leads a partition of.

`partitions` follows the leaderships of one internal topic's partitions and loads the state that a partition's log
holds, `appends` writes a coordinator's records into that log, `find` says which broker coordinates a key, `held` has
requests wait for a load of milliseconds. Leaderships come in from the replicas; records go out to their logs. `held`
knows in which field a request names its group or transactional id; nothing else here knows either.
Source: GroupMetadataManager.loadGroupsAndOffsets, TransactionStateManager.loadTransactionsForTxnTopicPartition.
"""
