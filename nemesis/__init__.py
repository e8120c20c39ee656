"""What hurts the cluster: faults, what they are aimed at, when they come, and how they are taken back.

Uses `harness.nodes` and `harness.plan`, and knows the cluster by the view that a system gives (`base`). A plan's
kinds and seed, or a script, come in; lines of starts, effects and reverts go to the history (docs/faults.md).
"""
