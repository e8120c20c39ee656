"""Names of the checkers of transactions, as the catalogue has them, and of a phase."""

ABORTED_READ = "aborted-transaction-read"
PRECOMMITTED = "precommitted-read"
TORN = "torn-transaction"
LOST = "committed-lost"
STABLE = "last-stable-offset"
HANGING = "hanging-transaction"
OFFSETS = "transaction-offsets"
EXACTLY_ONCE = "exactly-once"
FENCED = "fenced-producer"

FINAL = "final"
"""Phase in which the harness takes every transactional id once more, and asks for the last committed offsets."""
