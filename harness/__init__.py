"""The lab: runs a cluster, drives clients and faults, records what clients saw, and has it judged."""
