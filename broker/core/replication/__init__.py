"""The rules of one partition's replicas: leader and follower, ISR, high watermark, leader epochs, fencing, waits.

Pure: time is a value, no I/O. Fetches, appends and roles come in from `broker.runtime.replicas`, which acts on what is
returned.
Source: kafka.cluster.Partition, kafka.cluster.Replica.
"""
