"""The lab: runs a cluster on nodes, drives clients and faults, records what clients saw, and has it judged.

Of the broker it uses `broker.wire` alone, and runs the rest as a process. A run file comes in by `commands`; a run's
folder with history, evidence, verdict and report goes out.
"""
