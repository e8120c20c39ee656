"""One broker with one partition in memory: `python -m toy_lab.server ADDRESS PORT TOPIC LOST_OFFSET`.

LOST_OFFSET: acknowledged and forgotten, as a broker with a bug would; -1 for none.
"""

from __future__ import annotations

import signal
import sys

from tests.integration.harness.fake_broker import FakeBroker


class ForgetfulBroker(FakeBroker):
    lost_offset = -1

    def append(self, index: int, batch: bytes) -> int:
        kept = bytes(self.partitions[index].log)
        base = super().append(index, batch)
        if base == self.lost_offset:
            self.partitions[index].log[:] = kept
        return base


def main() -> None:
    address, port, topic, lost = sys.argv[1:]
    broker = ForgetfulBroker(topic, host=address, port=int(port))
    broker.lost_offset = int(lost)
    signal.sigwait({signal.SIGTERM})
    broker.close()


if __name__ == "__main__":
    main()
