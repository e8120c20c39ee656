"""The rules of one partition's replicas: leader and follower, ISR, high watermark, leader epochs, fencing, waits.

Pure: time is a value, no I/O. `broker.runtime.replicas` tells of fetches, appends and roles, and acts on the answers.
Source: kafka.cluster.Partition, kafka.cluster.Replica.
"""
