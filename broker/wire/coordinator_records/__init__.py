"""Records of `__consumer_offsets` and `__transaction_state`: keys and values ↔ bytes, and batches of them.

Uses the rest of `broker.wire`. Coordinators hand values in and get the records that they append; what loads a
partition, and the dump, hand in keys and values as they lie in the log. Written are the versions of Kafka 3.9, read
are all. `batches` is where writers begin, `scan` where a partition is loaded, `offsets_topic.read_key` where a record
is read.
Source: message definitions in Kafka's group-coordinator and transaction-coordinator.
"""
