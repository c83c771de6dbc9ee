"""Work on messages in batches: poll, work, commit. `python -m examples.lite_pull [NAMESRV [TOPIC [GROUP]]]`.

Without a name server it starts a cluster of its own, with some messages, and ends when they are done.
"""

from __future__ import annotations

import sys

from rocketpy.sync import ConsumeFromWhere, LitePullConsumer, Message
from rocketpy_broker_sim import BlockingLocalCluster


def work(bodies: list[bytes]) -> int:
    """Stands for real work on a batch. Its result and the offsets should be stored together."""
    return sum(map(len, bodies))


def consume(namesrv: str, topic: str, group: str, *, until_idle: float) -> int:
    """Work on everything there is, and return the number of messages."""
    done = 0
    consumer = LitePullConsumer(
        group,
        namesrv=namesrv,
        auto_commit=False,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer.subscribe(topic)
    with consumer:
        consumer.wait_assigned(30)
        while batch := consumer.poll(100, timeout=until_idle):
            size = work([message.body for message in batch])
            consumer.commit()  # after the work is done, so that an interrupted batch comes again
            done += len(batch)
            print(f"{len(batch)} messages, {size} bytes; {sum(consumer.lag().values())} left")
    return done


def main() -> None:
    given = [*sys.argv[1:], "Orders", "batches"]
    if len(sys.argv) > 1:
        print(f"{consume(given[0], given[1], given[2], until_idle=30)} messages done")
        return
    with BlockingLocalCluster() as cluster:
        cluster.create_topic("Orders", queues=4)
        for number in range(1000):
            cluster.send(Message("Orders", b"order %d" % number))
        print(f"{consume(cluster.name_server_addresses, *given, until_idle=0.5)} messages done")


if __name__ == "__main__":
    main()
