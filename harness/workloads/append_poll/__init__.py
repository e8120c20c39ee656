"""append-poll: producers append unique values to all partitions, consumers poll all partitions by assignment.

`workload.AppendPoll` is the registered kind: generator, client, final phase and checkers of the workload meet there.
Uses the wire clients; operations go to the history. Source: jepsen.tests.kafka.
"""
