"""Meets log, network and ZooKeeper through ports: handlers, replica manager, fetchers, purgatory driver."""
