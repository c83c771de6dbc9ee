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


class Database:
    """Stands for a real one. It is down when the second transaction comes."""

    def __init__(self) -> None:
        self.amounts: list[int] = []
        self.full = asyncio.Event()
        self._down = True

    async def write(self, amounts: list[int]) -> None:
        if self.amounts and self._down:
            self._down = False
            raise ConnectionError("the database is down")
        self.amounts += amounts
        if len(self.amounts) == 20:
            self.full.set()


async def consume(namesrv: str) -> None:
    """Write twenty amounts."""
    database, batches = Database(), defaultdict[MessageQueue, list[int]](list)

    async def on_amount(message: MessageExt) -> ConsumeResult | None:
        batch = batches[message.queue]
        batch.append(int(message.body))
        if len(batch) < 5:
            return None  # done, but not committed: if this process ended here, the group would get it again
        try:
            await database.write(batches.pop(message.queue))
        except ConnectionError as error:
            print(f"{error}: {batch} come again")
            return ConsumeResult.ROLLBACK
        print(f"{batch} are written")
        return ConsumeResult.COMMIT

    async def on_revoked(queues: tuple[MessageQueue, ...]) -> None:
        for queue in queues:
            batches.pop(queue, None)  # the next owner gets what is not committed

    async with PushConsumer(
        "bank",
        namesrv=namesrv,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        orderly=True,
        auto_commit=False,
        suspend_current_queue_time=0.1,
        on_revoked=on_revoked,
    ) as consumer:
        consumer.subscribe("Payments", on_amount)
        await asyncio.wait_for(database.full.wait(), 60)
    print("sum:", sum(database.amounts))


def main() -> None:
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        fill(namesrv, "Payments", [str(amount) for amount in range(1, 21)], queues=1)
        asyncio.run(consume(namesrv))


if __name__ == "__main__":
    main()
