"""Write a sale to a database and send a message about it, both or neither: a transaction in blocking code.

python -m examples.transactions
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from rocketpy.sync import LocalTransactionState, Message, MessageExt, TransactionProducer
from rocketpy_broker_sim import BlockingLocalCluster

SHOP = "file:shop?mode=memory&cache=shared"
COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK


def sell(message: Message, amount: int) -> LocalTransactionState:
    """The executor: runs the local transaction, which also stores the id of the transaction."""
    with closing(sqlite3.connect(SHOP, uri=True)) as shop, shop:  # commits at the end of the block
        if shop.execute("UPDATE stock SET left = left - ? WHERE left >= ?", (amount, amount)).rowcount == 0:
            return ROLLBACK  # nothing has changed, and consumers get no message
        shop.execute("INSERT INTO sales VALUES (?, ?)", (message.transaction_id, amount))
    return COMMIT


def look_up(message: MessageExt) -> LocalTransactionState:
    """The checker: the state of a transaction has not reached the broker, perhaps because the producer crashed."""
    with closing(sqlite3.connect(SHOP, uri=True)) as shop:
        found = shop.execute("SELECT 1 FROM sales WHERE id = ?", (message.transaction_id,)).fetchone()
    # It would return UNKNOWN while the local transaction may still run; here none takes longer than the broker waits.
    return COMMIT if found else ROLLBACK


def main() -> None:
    """Try to sell two pieces five times, with nine in stock."""
    with closing(sqlite3.connect(SHOP, uri=True)) as shop, BlockingLocalCluster() as cluster:
        shop.executescript("CREATE TABLE stock (left); INSERT INTO stock VALUES (9); CREATE TABLE sales (id, amount)")
        names = cluster.name_server_addresses
        with TransactionProducer("shop", checker=look_up, executor=sell, namesrv=names) as producer:
            for number in range(5):
                result = producer.send_in_transaction(Message("Sales", f"sale {number}".encode()), arg=2)
                print(f"sale {number}: {result.local_state.name}")
        sold = cluster.wait_messages("Sales", 4)
        print(f"{len(sold)} messages, {shop.execute('SELECT count(*) FROM sales').fetchone()[0]} sales")


if __name__ == "__main__":
    main()
