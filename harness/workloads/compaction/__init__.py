"""compaction: keyed records and tombstones on a compacted topic, which the brokers clean all the time.

Polls, final phase and drains are append-poll's; operations go to the history. Must not know faults or checkers.
"""
