"""ZooKeeper: znode paths, layouts, a typed client over kazoo, and what brokers and controller write there."""
