"""What the nodes held: rules over event logs, segment files and ZooKeeper's transaction log."""
