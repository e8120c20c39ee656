"""What is done to a replica's files on its node: one program, run there by the node's own Python. Pure here.

It picks a file and a place by the seed it is given, damages it, reads it back, and prints what it did as JSON. Places
that no format protects are left out, because no system could detect the damage: the leader epoch in a batch header lies
outside of its CRC, and the text checkpoints carry none.
"""

from __future__ import annotations

FILES = ("segment", "oldest-segment", "index", "checkpoint")

PROGRAM = r"""
import json, os, random, struct, sys

root, topic, how, what, seed = sys.argv[1:]
rng = random.Random(seed)
ENDINGS = {
    "segment": (".log",),
    "oldest-segment": (".log",),
    "index": (".index", ".timeindex", ".snapshot"),
    "checkpoint": (
        "leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint",
    ),
}[what]
found = []
for folder, _, names in sorted(os.walk(root)):
    inside = os.path.basename(folder)
    if what == "oldest-segment":
        # Not the only one of its log: that is the active one.
        names = sorted(name for name in names if name.endswith(".log"))
        names = names[:1] if len(names) > 1 else []
    for name in sorted(names):
        path = os.path.join(folder, name)
        ours = folder == root or inside.rpartition("-")[0] == topic
        if ours and name.endswith(ENDINGS) and os.path.getsize(path) > 0:
            found.append(path)
if not found:
    print(json.dumps({"file": None, "why": "no " + what + " file of topic " + topic + " holds anything"}))
    sys.exit()
path = rng.choice(found)
size = os.path.getsize(path)
done = {"file": os.path.relpath(path, root), "size": size}


def epoch_bytes():
    # Bytes 12 to 15 of every batch. A batch that cannot be one ends the walk.
    taken, position = set(), 0
    with open(path, "rb") as file:
        while position + 61 <= size:
            file.seek(position)
            head = file.read(12)
            (length,) = struct.unpack_from(">i", head, 8)
            if length < 49:
                break
            taken.update(range(position + 12, position + 16))
            position += 12 + length
    return taken


if how == "remove":
    os.unlink(path)
    done["seen"] = not os.path.exists(path)
elif how == "truncate":
    to = rng.randrange(size)
    os.truncate(path, to)
    done.update(position=to, seen=os.path.getsize(path) <= to)
else:
    spared = epoch_bytes() if what.endswith("segment") else set()
    position = rng.choice([at for at in (rng.randrange(size) for _ in range(64)) if at not in spared])
    with open(path, "r+b") as file:
        file.seek(position)
        before = file.read(1)[0]
        after = before ^ (1 << rng.randrange(8))
        file.seek(position)
        file.write(bytes([after]))
        file.flush()
        file.seek(position)
        done.update(position=position, before=before, after=after, seen=file.read(1)[0] == after)
print(json.dumps(done))
"""
