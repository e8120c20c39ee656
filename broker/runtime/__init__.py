"""The broker at work: handlers of requests, replicas and their fetchers, the controller, metadata, administration.

Rules are in `broker.core`; the log, sockets, ZooKeeper, clocks and threads are reached by the protocols of `ports`
alone. Requests come in by `requests`, orders by the controller, notifications by `broker.zk`; the rooms' order is
enforced by the import rules. Source: kafka.server.KafkaApis, ReplicaManager; kafka.controller.
"""
