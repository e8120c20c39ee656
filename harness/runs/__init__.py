"""One run from plan to verdict, its folder and its console.

Uses nodes, systems, workloads and the nemesis, by the names in the plan. A Plan comes in; a run folder with history,
evidence, verdict and report comes out.
"""
