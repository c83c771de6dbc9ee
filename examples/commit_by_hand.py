"""Write five messages of a queue in one transaction, on asyncio: `python -m examples.commit_by_hand [NAMESRV]`.

The queue is consumed in order, and its offset moves when a transaction succeeds. One that fails is rolled back, and its
messages come again. Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict

from examples.servers import fill, servers
from rocketpy.aio import ConsumeFromWhere, ConsumeResult, MessageExt, MessageQueue, PushConsumer

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET

batches = defaultdict[MessageQueue, list[int]](list)
outcomes = [True, False, True, True, True]  # of the transactions: they stand for those of a real database
all_written = asyncio.Event()


async def on_amount(message: MessageExt) -> ConsumeResult | None:
    batch = batches[message.queue]
    batch.append(int(message.body))
    if len(batch) < 5:
        return None  # done, but not committed: if this process ended here, the group would get it again
    del batches[message.queue]
    if not outcomes.pop(0):
        print(f"the database is down: {batch} come again")
        return ConsumeResult.ROLLBACK
    print(f"{batch} are written")
    if not outcomes:
        all_written.set()
    return ConsumeResult.COMMIT


async def on_revoked(queues: tuple[MessageQueue, ...]) -> None:
    for queue in queues:
        batches.pop(queue, None)  # the next owner gets what is not committed


async def consume(namesrv: str) -> None:
    """Write twenty amounts."""
    async with PushConsumer(
        "bank", namesrv=namesrv, orderly=True, auto_commit=False, on_revoked=on_revoked, consume_from_where=FIRST
    ) as consumer:
        consumer.subscribe("Payments", on_amount)
        await asyncio.wait_for(all_written.wait(), 60)


def main() -> None:
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        fill(namesrv, "Payments", [str(amount) for amount in range(1, 21)], queues=1)
        asyncio.run(consume(namesrv))


if __name__ == "__main__":
    main()
