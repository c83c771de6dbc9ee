"""Transactions with asyncio: one that commits at once, and one that the broker has to check.

python -m examples.transactions_asyncio
"""

from __future__ import annotations

import asyncio

from rocketpy.aio import LocalTransactionState, Message, MessageExt, TransactionProducer
from rocketpy_broker_sim import AsyncioLocalCluster

book: dict[str | None, LocalTransactionState] = {}
"""The state of each transaction; a real program has this in its database."""


async def pay(message: Message, seconds: float) -> LocalTransactionState:
    """The executor. A payment may take long, so it continues in a task."""
    payment = asyncio.create_task(settle(message.transaction_id, seconds))
    done, _ = await asyncio.wait([payment], timeout=0.2)
    return LocalTransactionState.COMMIT if done else LocalTransactionState.UNKNOWN


async def settle(transaction_id: str | None, seconds: float) -> None:
    """Pay, and write the state."""
    await asyncio.sleep(seconds)
    book[transaction_id] = LocalTransactionState.COMMIT


async def look_up(message: MessageExt) -> LocalTransactionState:
    """The checker: runs in this loop too."""
    print(f"the broker asks about {message.body.decode()}")
    return book.get(message.transaction_id, LocalTransactionState.UNKNOWN)


async def main() -> None:
    """Pay twice. This broker checks every half second; by default, brokers check after six seconds and then every
    30."""
    async with (
        AsyncioLocalCluster(transaction_time_out=200, transaction_check_interval=500) as cluster,
        TransactionProducer("shop", checker=look_up, executor=pay, namesrv=cluster.name_server_addresses) as producer,
    ):
        for text, seconds in (("a quick payment", 0.0), ("a slow payment", 0.4)):
            result = await producer.send_in_transaction(Message("Payments", text.encode()), arg=seconds)
            print(f"{text}: {result.local_state.name}")
        paid = await cluster.wait_messages("Payments", 2)
        print(sorted(message.body.decode() for message in paid))


if __name__ == "__main__":
    asyncio.run(main())
