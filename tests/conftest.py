"""What holds for all tests: how the suite was started changes nothing of what they show."""

from __future__ import annotations

import signal

# A shell that starts it in the background has it, and whatever tests start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
