"""What the lab needs from outside: Java, ZooKeeper, libfaketime, Debian packages."""
