"""A workload, a system and a fault, as somebody who installs the lab would write them in a package of their own."""
