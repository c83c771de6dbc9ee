"""Message traces and send hooks: `python -m examples.message_traces [NAMESRV TOPIC]`.

The topic of traces must exist (`traceTopicEnable=true`). Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import sys
from queue import SimpleQueue

from examples.servers import servers
from rocketpy import ConsumeFromWhere, RocketMQError, SendContext, SendResult, decode_traces
from rocketpy.sync import LitePullConsumer, Message, MessageExt, Producer, PushConsumer


class NotAllowedError(Exception):
    """The message is internal, and must not be sent."""


def check(context: SendContext) -> None:
    """Forbid sends of internal messages."""
    if any(message.tags == "internal" for message in context.messages):
        raise NotAllowedError(f"internal messages stay here, and do not go to {context.topic}")


def note(context: SendContext, outcome: SendResult | RocketMQError | None) -> None:
    """Print the outcome of each attempt."""
    print(f"{context.group} -> {context.topic}: {type(outcome).__name__}")


def main() -> None:
    """Send and consume with traces, and read the traces."""
    topic = sys.argv[2] if len(sys.argv) > 2 else "Orders"
    got: SimpleQueue[MessageExt] = SimpleQueue()
    with servers(sys.argv[1] if len(sys.argv) > 1 else None, traces=True) as namesrv:
        with Producer("shop", namesrv=namesrv, enable_msg_trace=True, check_forbidden=check, after_send=note) as shop:
            shop.create_topic(topic)
            consumer = PushConsumer("billing", namesrv=namesrv, enable_msg_trace=True)
            consumer.subscribe(topic, got.put)
            with consumer:
                sent = shop.send(Message(topic, b"two cups", keys=["order-17"]))
                print(f"got {got.get(timeout=10).body.decode()}")
            try:
                shop.send(Message(topic, b"the recipe", tags="internal"))
            except NotAllowedError as error:
                print(f"refused: {error}")
        since = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP  # from half an hour ago; closing has sent the traces
        with LitePullConsumer("audit", namesrv=namesrv, consume_from_where=since) as audit:
            audit.subscribe("RMQ_SYS_TRACE_TOPIC")
            found: list[str] = []
            while len(found) < 3 and (batch := audit.poll(timeout=10)):
                records = [record for message in batch for record in decode_traces(message.body)]
                found += [f"{each.kind} by {each.group}" for each in records if each.message_id == sent.message_id]
            print("traced:", ", ".join(sorted(found)))


if __name__ == "__main__":
    main()
