"""Lives of a whole partition in memory: random ones, and the end of one where everything comes back."""

from __future__ import annotations

from tests.property.core.cluster import LAG_MS, Cluster


def random_step(cluster: Cluster) -> None:
    rng = cluster.rng
    roll = rng.random()
    i = rng.choice(cluster.ids)
    if roll < 0.50 and cluster.bag:
        # Mostly in order, sometimes from anywhere: a delayed message is the interesting one.
        cluster.deliver(0 if rng.random() < 0.7 else rng.randrange(len(cluster.bag)))
    elif roll < 0.62:
        cluster.produce(i)
    elif roll < 0.84:
        cluster.fetch(i)
    elif roll < 0.88:
        cluster.tick(rng.choice((1.0, LAG_MS / 2, 2 * LAG_MS)))
    elif roll < 0.90:
        cluster.checkpoint(i)
    elif roll < 0.915:
        if rng.random() < 0.5:
            cluster.expire(i)
        else:
            cluster.reregister(i)
    elif roll < 0.945:
        if cluster.brokers[i].alive:
            cluster.kill(i)
        else:
            cluster.start(i)
    elif roll < 0.96:
        cluster.resend_alters()
    elif roll < 0.97 and cluster.bag and cluster.loss:
        del cluster.bag[rng.randrange(len(cluster.bag))]
    else:
        cluster.tell_all()


def run(cluster: Cluster, steps: int) -> None:
    for _ in range(steps):
        random_step(cluster)
        cluster.check()


def settle(cluster: Cluster) -> None:
    """All up, every message delivered, until nothing is left to do."""
    for i in cluster.ids:
        if not cluster.brokers[i].alive:
            cluster.start(i)
        cluster.reregister(i)
    for _ in range(400):
        cluster.tell_all()
        while cluster.bag:
            cluster.deliver(0)
            cluster.check()
        for i in cluster.ids:
            cluster.fetch(i)
        cluster.tick(1.0)
        cluster.resend_alters()
    while cluster.bag:
        cluster.deliver(0)
    cluster.check()
