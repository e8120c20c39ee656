"""The controller: one term from election to resignation, on a thread of its own.

Facts come in by ZooKeeper's watches and by requests of brokers; states are written to ZooKeeper first and sent to
brokers afterwards. The decisions are `broker.core.controller`'s. Source: kafka.controller.KafkaController.
"""
