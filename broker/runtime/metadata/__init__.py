"""What this broker knows of the cluster and tells its clients: brokers, topics, leaders, settings.

UpdateMetadata and ZooKeeper's notifications come in; Metadata and DescribeCluster are answered from it.
Source: kafka.server.metadata.ZkMetadataCache.
"""
