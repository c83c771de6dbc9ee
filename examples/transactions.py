"""Write a sale to a database and send a message about it, both or neither: a transaction in blocking code.

`python -m examples.transactions [NAMESRV [TOPIC]]`. Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

import rocketpy.sync
from examples.servers import servers
from rocketpy.sync import LocalTransactionState, Message, MessageExt

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
    topic = sys.argv[2] if len(sys.argv) > 2 else "Sales"
    with closing(sqlite3.connect(SHOP, uri=True)) as shop, servers(sys.argv[1] if len(sys.argv) > 1 else None) as names:
        shop.executescript("CREATE TABLE stock (left); INSERT INTO stock VALUES (9); CREATE TABLE sales (id, amount)")
        sold = set()
        with rocketpy.sync.TransactionProducer("shop", checker=look_up, executor=sell, namesrv=names) as producer:
            producer.create_topic(topic)
            for number in range(5):
                result = producer.send_in_transaction(Message(topic, f"sale {number}".encode()), arg=2)
                print(f"sale {number}: {result.local_state.name}")
                sold |= {result.message_id} if result.local_state is COMMIT else set()
        got = 0
        since = rocketpy.sync.ConsumeFromWhere.CONSUME_FROM_TIMESTAMP  # half an hour ago
        with rocketpy.sync.LitePullConsumer("accounts", namesrv=names, consume_from_where=since) as accounts:
            accounts.subscribe(topic)
            while got < len(sold) and (batch := accounts.poll(timeout=10)):
                got += sum(message.message_id in sold for message in batch)
        print(f"{got} messages, {shop.execute('SELECT count(*) FROM sales').fetchone()[0]} sales")


if __name__ == "__main__":
    main()
