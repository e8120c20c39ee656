"""What the nodes held: numbered rules over event logs, segment files and ZooKeeper's transaction log.

Uses `verdicts`, `allowances`, `evidence` and what is below them. Tables of evidence come in; findings and figures go
out. docs/checkers.md says each rule.
"""
