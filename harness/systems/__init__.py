"""Systems that run on nodes: ZooKeeper and the brokers under test."""
