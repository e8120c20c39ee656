"""`highwater reassign`, as kafka-reassign-partitions.sh: give partitions other replicas, watch and cancel that.

Source: org.apache.kafka.tools.reassign.ReassignPartitionsCommand; KIP-455.
"""
