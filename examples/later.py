"""Delayed and timed messages: by a delay level, by `deliver_at`, by `delay`, and one that is recalled.

`python -m examples.later [NAMESRV]`. Without a name server the program starts a cluster of its own. Apache's broker
delivers the others as well, and recalls messages with recallMessageEnable=true, from RocketMQ 5.3 on.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from queue import Queue

from examples.servers import servers
from rocketpy.sync import Message, MessageExt, Producer, PushConsumer


def main() -> None:
    """Send them, and see when they arrive."""
    arrived: Queue[tuple[str, float]] = Queue()

    def note(message: MessageExt) -> None:
        arrived.put((message.body.decode(), time.time()))

    with (
        servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv,
        Producer("clock", namesrv=namesrv) as producer,
        PushConsumer("alarms", namesrv=namesrv) as consumer,
    ):
        producer.create_topic("Alarms", queues=1)
        consumer.subscribe("Alarms", note)
        consumer.wait_assigned(30)
        began = time.time()
        producer.send(Message("Alarms", b"level 1 is a second", delay_level=1))
        producer.send(Message("Alarms", b"in two seconds", deliver_at=datetime.now(UTC) + timedelta(seconds=2)))
        producer.send(Message("Alarms", b"three seconds later", delay=3))
        snoozed = producer.send(Message("Alarms", b"never", delay=2.5))
        if snoozed.recall_handle is not None:
            print("recalled:", producer.recall("Alarms", snoozed.recall_handle) == snoozed.message_id)
        for seconds in (1, 2, 3):
            text, moment = arrived.get(timeout=60)
            print(f"{text}: not early: {moment - began >= seconds}")


if __name__ == "__main__":
    main()
