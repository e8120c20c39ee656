"""A workload and a system of another package than the lab's, as somebody who installs the lab would write them."""
