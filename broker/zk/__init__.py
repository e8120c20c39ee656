"""ZooKeeper: znode paths and layouts, a typed client over kazoo, and the stores of brokers, topics and controller.

Uses `broker.core` for values and imports nothing of the runtime, whose ports it implements. Writes come in from there
and have a known outcome; watches and the session's deadline go out (docs/adr/0006, docs/adr/0009).
"""
