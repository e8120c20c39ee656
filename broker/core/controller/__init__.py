"""What a controller decides: elections, eligible leaders (ELR), assignments, reassignments, suspicions.

Pure functions of a ClusterState. Facts come in from `broker.runtime.controller`, which reads ZooKeeper and takes
brokers' requests; decisions go back to it as states to write.
"""
