"""Operations, their outcomes and their record: generators make them, the interpreter carries them out, the history
keeps them.

Uses nothing of nodes, systems or workloads. Source: jepsen.generator, jepsen.history.
"""
