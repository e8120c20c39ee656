"""Registers, races for the controller, answers ApiVersions, logs events; `die` in its log folder makes it crash."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NodeExistsError, SessionExpiredError
from kazoo.retry import KazooRetry


def main() -> None:
    with open(sys.argv[2], encoding="utf-8") as file:
        settings = dict(line.strip().split("=", 1) for line in file if "=" in line)
    broker, folder = int(settings["broker.id"]), settings["log.dirs"]
    host, _, port = settings["listeners"].removeprefix("PLAINTEXT://").rpartition(":")
    client = KazooClient(settings["zookeeper.connect"], timeout=3.0)
    retry = KazooRetry(max_tries=20, delay=0.1)
    client.start()
    retry(client.ensure_path, "/brokers/ids")
    while True:
        try:
            retry(client.create, f"/brokers/ids/{broker}", b"{}", ephemeral=True)
            break
        except NodeExistsError:
            found = retry(client.exists, f"/brokers/ids/{broker}")
            if found is not None and found.ephemeralOwner == client.client_id[0]:
                break  # The create that lost its connection had come through.
            time.sleep(0.05)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    os.makedirs(f"{folder}/hw-0", exist_ok=True)
    with open(f"{folder}/hw-0/00000000000000000000.log", "ab") as log:
        log.write(b"segment")
    server = socket.create_server((host, int(port)))
    server.settimeout(0.05)
    with open(settings["lab.event.log"], "a", buffering=1, encoding="utf-8") as events:
        while True:
            with contextlib.suppress(NodeExistsError, ConnectionLoss, SessionExpiredError):
                client.create("/controller", json.dumps({"brokerid": broker}).encode(), ephemeral=True)
            print(json.dumps({"e": "tick", "w": time.time_ns(), "m": time.monotonic_ns()}), file=events)
            if os.path.exists(f"{folder}/die"):
                os.remove(f"{folder}/die")
                raise RuntimeError("told to die")
            try:
                connection = server.accept()[0]
            except TimeoutError:
                continue
            with connection:
                request = connection.recv(1000)
                if len(request) >= 12:
                    connection.sendall(struct.pack(">iihi", 10, struct.unpack(">i", request[8:12])[0], 0, 0))


main()
