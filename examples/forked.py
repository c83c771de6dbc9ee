"""Consume in a worker process that was forked, in batches and without copies: `python -m examples.forked [NAMESRV]`.

The consumer is made before the fork, as by a server that loads its application first, and reopened in the worker.
Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import os
import sys
import threading

from examples.servers import servers
from rocketpy.sync import ConsumeFromWhere, Message, MessageExt, Producer, PushConsumer, RetryLater

ORDERS = [b"0", b"1", b"2", b"3", b"4", b"5", b"0", b"6"]  # 0 was sent twice

taken: list[bytes] = []
done = threading.Event()


def on_orders(orders: list[MessageExt]) -> RetryLater | None:
    """The listener: order 5 fails once, and comes again in a second with what follows it in its batch."""
    for number, order in enumerate(orders):
        if order.body == b"5" and order.reconsume_times == 0:
            print(f"order 5 fails; {number} of its batch are done", flush=True)
            return RetryLater(1, done=number)
        taken.append(order.body)
    if len(set(taken)) == 7:
        done.set()
    return None


def main() -> None:
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        with Producer("shop", namesrv=namesrv) as producer:
            producer.create_topic("ForkedOrders", queues=1)
            for order in ORDERS:
                producer.send(Message("ForkedOrders", order, keys=[order.decode()]))
        consumer = PushConsumer(
            "forked",
            namesrv=namesrv,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            consume_message_batch_max_size=3,
            consume_thread_max=1,
            dedupe="key",
        )
        consumer.subscribe("ForkedOrders", on_orders)
        if (worker := os.fork()) == 0:
            with consumer.reopen():
                done.wait(60)
                print(f"{len(taken)} orders, {consumer.statistics().duplicates} copy left out", flush=True)
            os._exit(0)
        _, status = os.waitpid(worker, 0)
        print("the worker has ended with", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
