"""The workload of senders and pollers over a topic's partitions, with its client and its final reads.

Source: jepsen.tests.kafka.
"""
