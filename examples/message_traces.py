"""Message traces and send hooks: `python -m examples.message_traces [NAMESRV TOPIC]`.

The topic of traces must exist (`traceTopicEnable=true`). Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import sys
import threading

from examples.servers import servers
from rocketpy import RocketMQError, SendContext, SendResult
from rocketpy.sync import Message, MessageExt, Producer, PushConsumer


class NotAllowedError(Exception):
    """The message is internal, and must not be sent."""


def check(context: SendContext) -> None:
    """Forbid sends of internal messages."""
    if any(message.tags == "internal" for message in context.messages):
        raise NotAllowedError(f"internal messages stay here, and do not go to {context.topic}")


def note(context: SendContext, outcome: SendResult | RocketMQError | None) -> None:
    """Print the outcome of each try."""
    print(f"{context.group} -> {context.topic}: {type(outcome).__name__}")


def main() -> None:
    """Send and consume with traces."""
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        topic = sys.argv[2] if len(sys.argv) > 2 else "Orders"
        done = threading.Event()

        def listen(message: MessageExt) -> None:
            print(f"got {message.body.decode()}")
            done.set()

        with Producer("shop", namesrv=namesrv, enable_msg_trace=True, check_forbidden=check, after_send=note) as shop:
            shop.create_topic(topic)
            consumer = PushConsumer("billing", namesrv=namesrv, enable_msg_trace=True)
            consumer.subscribe(topic, listen)
            with consumer:
                shop.send(Message(topic, b"two cups", keys=["order-17"]))
                done.wait(10)
            try:
                shop.send(Message(topic, b"the recipe", tags="internal"))
            except NotAllowedError as error:
                print(f"refused: {error}")


if __name__ == "__main__":
    main()
