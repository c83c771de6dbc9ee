"""Share messages among workers that finish in any order, on trio: `python -m examples.workers [NAMESRV]`.

Each worker acknowledges what it has done, so no commit passes a message that is not done. One message never is: after
a restart it would come again, with those that follow it in its queue.
Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import random
import sys

import trio

from examples.servers import fill, servers
from rocketpy import ConsumeFromWhere, LitePullConsumer, MessageExt, MessageQueue, Producer

PARCELS = 100


async def work(inbox: trio.MemoryReceiveChannel[MessageExt], consumer: LitePullConsumer) -> None:
    """Work on one message after another, and acknowledge each when it is done."""
    async with inbox:
        async for message in inbox:
            await trio.sleep(random.uniform(0, 0.02))
            if message.body != b"parcel 42":
                consumer.ack(message)


async def consume(namesrv: str) -> None:
    """Consume a hundred messages with five workers, then hear that the topic has grown."""
    grown = trio.Event()

    async def on_queues(topic: str, queues: tuple[MessageQueue, ...]) -> None:
        print(f"{topic} has {len(queues)} queues now")
        grown.set()

    async with LitePullConsumer(
        "parcels",
        namesrv=namesrv,
        auto_commit=False,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        poll_name_server_interval=1.0,
    ) as consumer:
        consumer.subscribe("Parcels")
        consumer.on_queues_changed("Parcels", on_queues)
        async with trio.open_nursery() as nursery:
            outbox, inbox = trio.open_memory_channel[MessageExt](0)
            for _ in range(5):
                nursery.start_soon(work, inbox.clone(), consumer)
            inbox.close()
            count = 0
            async for message in consumer:
                await outbox.send(message)
                count += 1
                if count == PARCELS:
                    outbox.close()  # the workers finish what they have, and end
                    break
        await consumer.commit()
        offsets = [await consumer.committed(queue) or 0 for queue in consumer.assignment]
        print(f"{count} messages are handed out, {sum(offsets)} are committed")
        async with Producer("post-office", namesrv=namesrv) as producer:
            await producer.create_topic("Parcels", queues=4)
        with trio.fail_after(60):
            await grown.wait()


def main() -> None:
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        fill(namesrv, "Parcels", [f"parcel {number}" for number in range(PARCELS)])
        trio.run(consume, namesrv)


if __name__ == "__main__":
    main()
