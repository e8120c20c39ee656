"""What this broker knows of the cluster and sends its clients: brokers, topics, leaders, settings.

UpdateMetadata and ZooKeeper's notifications come in; responses to Metadata and DescribeCluster go out.
Source: kafka.server.metadata.ZkMetadataCache.
"""
