"""Faults of the cluster: their targets, their times, how they are applied and taken back. Uses `harness.nodes` and
`harness.plan`, and sees the cluster by the view that a system provides (`base`). A plan's
kinds and seed, or a script, come in; lines of starts, effects and reverts go to the history (docs/faults.md).
"""
