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
from rocketpy import ConsumeFromWhere, LitePullConsumer, MessageExt

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def work(inbox: trio.MemoryReceiveChannel[MessageExt], consumer: LitePullConsumer) -> None:
    """Work on one message after another, and acknowledge each when it is done."""
    async with inbox:
        async for message in inbox:
            await trio.sleep(random.uniform(0, 0.02))
            if message.body != b"parcel 42":
                consumer.ack(message)


async def consume(namesrv: str) -> None:
    """Consume a hundred messages with five workers."""
    async with LitePullConsumer("parcels", namesrv=namesrv, auto_commit=False, consume_from_where=FIRST) as consumer:
        consumer.subscribe("Parcels")
        async with trio.open_nursery() as nursery:
            outbox, inbox = trio.open_memory_channel[MessageExt](0)
            for _ in range(5):
                nursery.start_soon(work, inbox.clone(), consumer)
            inbox.close()
            count = 0
            async for message in consumer:
                await outbox.send(message)
                count += 1
                if count == 100:
                    outbox.close()  # the workers finish what they have, and end
                    break
        await consumer.commit()
        offsets = [await consumer.committed(queue) or 0 for queue in consumer.assignment]
        print(f"{count} messages are handed out, {sum(offsets)} are committed")


def main() -> None:
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        fill(namesrv, "Parcels", [f"parcel {number}" for number in range(100)])
        trio.run(consume, namesrv)


if __name__ == "__main__":
    main()
