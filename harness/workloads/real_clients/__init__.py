"""real-clients: confluent-kafka and the Java client produce, and consume in a group, under faults, as applications do.

`producer` and `consumer` are one application thread each; `processing` is what a consumer does with what it is given,
one way for each promise: at-most-once, at-least-once, exactly-once. Calls and callbacks go to the history by `record`.
They know their client by `ports` alone, of which `librdkafka` and `java` are the implementations.
Wire readers of append-poll poll beside them; drain and final phase are those of groups and transactions.
"""
