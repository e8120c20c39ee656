"""What people type: `highwater test`, `nightly`, `analyze`, `doctor`, `faults`, `heal`, `serve`,
`compare`.

Arguments come in, exit codes and text go out; the work is in `harness.runs`.
"""
