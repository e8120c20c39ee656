"""What the lab needs from outside the repository: Java, ZooKeeper's jars, libfaketime, Debian packages.

Uses nothing else of the lab. Names of what is wanted come in; paths go out, or an error that says how to get it.
"""
