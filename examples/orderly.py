"""Consume the steps of orders in order: each order in one queue, each queue one message at a time, until Ctrl-C.

Run it twice to see the queues move; end one of the two, or kill it. It needs a name server and a broker:

python -m examples.orderly [-n 127.0.0.1:9876]
"""

from __future__ import annotations

import argparse
import threading

from rocketpy.sync import ConsumeFromWhere, Message, MessageExt, Producer, PushConsumer, Suspend

STEPS = ("created", "paid", "shipped", "delivered")


def on_step(message: MessageExt) -> Suspend | None:
    """The listener: the first payment of every order fails once, and the rest of its queue waits."""
    order, _, step = message.body.decode().partition(" ")
    print(f"queue {message.queue_id}, order {order}: {step}", flush=True)
    return Suspend(2.0) if step == "paid" and message.reconsume_times == 0 else None


def send_orders(producer: Producer, over: threading.Event) -> None:
    """Send the steps of one order after the other."""
    number = 0
    while not over.wait(0.5):
        order, step = divmod(number, len(STEPS))
        producer.send(Message("Steps", f"{order} {STEPS[step]}".encode(), sharding_key=str(order)))
        number += 1


def main() -> None:
    """Consume until Ctrl-C or SIGTERM, then commit, unlock and leave the group."""
    parser = argparse.ArgumentParser(prog="orderly")
    parser.add_argument("-n", "--namesrv", default=None, help='"host:port;host:port"; NAMESRV_ADDR when left out')
    options = parser.parse_args()
    over = threading.Event()
    with Producer("orderly-example", namesrv=options.namesrv) as producer:
        producer.create_topic("Steps", queues=4)
        sender = threading.Thread(target=send_orders, args=(producer, over))
        sender.start()
        try:
            first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
            consumer = PushConsumer("orderly-example", namesrv=options.namesrv, orderly=True, consume_from_where=first)
            consumer.subscribe("Steps", on_step)
            consumer.run_forever()
        finally:
            over.set()
            sender.join()


if __name__ == "__main__":
    main()
