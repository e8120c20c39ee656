"""real-clients: confluent-kafka produces, and consumes in a group, while faults are active, as applications do.

`producer` and `consumer` are one application thread each; `processing` is what a consumer does with what it is given,
one way for each promise: at-most-once, at-least-once, exactly-once. Calls and callbacks go to the history by `record`.
Wire readers of append-poll poll beside them; drain and final phase are those of groups and transactions.
"""
