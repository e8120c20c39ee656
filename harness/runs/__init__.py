"""One run from plan to verdict, its folder and its console.

A Plan comes in; a run folder with history, evidence, verdict and report comes out.
"""
