"""`python -m checkers`."""

import sys

from checkers.cli import main

if __name__ == "__main__":
    sys.exit(main())
