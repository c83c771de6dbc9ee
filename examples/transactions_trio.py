"""Transactions with trio: a producer crashes before it sends the state, and the broker checks with another producer.

python -m examples.transactions_trio
"""

from __future__ import annotations

import trio

from rocketpy import LocalTransactionState, Message, MessageExt, TransactionProducer
from rocketpy_broker_sim import LocalCluster

book: dict[str | None, LocalTransactionState] = {}
"""The state of each transaction; a real program has this in its database."""


async def order(message: Message, arg: object) -> LocalTransactionState:
    """The executor: the local transaction commits, and then the producer is stopped."""
    book[message.transaction_id] = LocalTransactionState.COMMIT
    await trio.sleep(3600)
    return LocalTransactionState.COMMIT


async def look_up(message: MessageExt) -> LocalTransactionState:
    """The checker, which works in any producer of the group."""
    print(f"the broker asks about {message.body.decode()}")
    return book.get(message.transaction_id, LocalTransactionState.UNKNOWN)


async def main() -> None:
    """One producer is stopped, another one runs. This broker asks soon; others do so after some seconds."""
    async with LocalCluster(transaction_time_out=200, transaction_check_interval=1000) as cluster:
        names = cluster.name_server_addresses
        with trio.move_on_after(0.3):
            async with TransactionProducer("shop", checker=look_up, executor=order, namesrv=names) as mortal:
                await mortal.send_in_transaction(Message("Orders", b"one coffee"))
        print("the producer is gone")
        # With `topics`, the brokers of the topic know it although it has sent nothing.
        async with TransactionProducer("shop", checker=look_up, namesrv=names, topics=["Orders"]):
            (message,) = await cluster.wait_messages("Orders", 1)
            print(f"delivered: {message.body.decode()}")


if __name__ == "__main__":
    trio.run(main)
