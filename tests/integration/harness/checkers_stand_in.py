"""A program in place of the checkers: what its `__main__.py` holds."""

from __future__ import annotations

CHECKERS = """
import json, os, sys, time
run = sys.argv[1]
{body}
"""
WRITE = """
json.dump({{"verdict": "{verdict}", "sentence": "It is {verdict}.", "checkers": {{}}, "argv": sys.argv[1:]}},
          open(run + "/results.json", "w"))
sys.exit({code})
"""
