"""One broker with one partition in memory: `python -m toy_lab.server ADDRESS PORT TOPIC LOST_OFFSET RETENTION_S`.

LOST_OFFSET: acknowledged and forgotten, as a broker with a bug would; -1 for none. What is older than RETENTION_S by
the broker's own clock is deleted at once. How far that clock is ahead stands in the file `ahead_s` of the current
folder; the broker writes what it has read there into `seen_s`.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from .memory_broker import MemoryBroker

CLOCK, SEEN = "ahead_s", "seen_s"
LOOK_S = 0.05


class ForgetfulBroker(MemoryBroker):
    lost_offset = -1
    retention_s = 7 * 86_400.0
    ahead_s = "0.0"

    def append(self, batch: bytes) -> int:
        kept = bytes(self.log)
        base = super().append(batch)
        if base == self.lost_offset:
            self.log[:] = kept
        if float(self.ahead_s) > self.retention_s:
            # Records carry the clients' clocks, which are right: all of them are too old.
            self.log.clear()
            self.log_start = self.leo
        return base

    def look_at_clock(self) -> None:
        said = Path(CLOCK).read_text() if Path(CLOCK).exists() else "0.0"
        with self.lock:
            self.ahead_s = said
        part = Path(f"{SEEN}.part")
        part.write_text(said)
        part.replace(SEEN)


def main() -> None:
    address, port, topic, lost, retention_s = sys.argv[1:]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    broker = ForgetfulBroker(topic, address, int(port))
    broker.lost_offset = int(lost)
    broker.retention_s = float(retention_s)
    print(f"serving, with the code of {Path(__file__).parent}", flush=True)
    threading.Thread(target=broker.serve_forever, daemon=True).start()
    while signal.sigtimedwait({signal.SIGTERM}, LOOK_S) is None:
        broker.look_at_clock()
    broker.shutdown()
    broker.server_close()


if __name__ == "__main__":
    main()
