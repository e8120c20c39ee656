"""The broker at work: handlers of requests, replicas and their fetchers, the controller, metadata, administration.

Rules are in `broker.core`; the log, sockets, ZooKeeper, clocks and threads are reached by the protocols of `ports`
alone. Requests come in through `requests`, the controller's among them; ZooKeeper's notifications come from
`broker.zk`. The import rules enforce the order of the rooms. Source: kafka.server.KafkaApis, ReplicaManager;
kafka.controller.
"""
