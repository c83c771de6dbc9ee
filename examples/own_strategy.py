"""A custom strategy that gives members on large machines three times as much: `python -m examples.own_strategy`.

What a member is goes into its `instance_name`, which is a part of the client id that all members see. Without a name
server as an argument the program starts a cluster of its own.
"""

from __future__ import annotations

import sys
import time

from examples.servers import fill, servers
from rocketpy.sync import AllocateRequest, MessageExt, MessageQueue, PushConsumer

LARGE = 3


def weight(client_id: str) -> int:
    """How many shares a member gets."""
    return LARGE if client_id.endswith("large") else 1


def by_weight(request: AllocateRequest) -> list[MessageQueue]:
    """Deal the queues out to a circle in which large members appear three times; it is the same in every member."""
    circle = [client_id for client_id in request.client_ids for _ in range(weight(client_id))]
    return [queue for at, queue in enumerate(request.queues) if circle[at % len(circle)] == request.client_id]


def ignore(message: MessageExt) -> None:
    """A listener; here only the shares matter."""


def member(name: str, namesrv: str) -> PushConsumer:
    consumer = PushConsumer("weighted", namesrv=namesrv, instance_name=name, allocate_strategy=by_weight)
    consumer.subscribe("Shared", ignore)
    return consumer


def main() -> None:
    """Let a large member and a small one share eight queues, and print how many each has."""
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as namesrv:
        fill(namesrv, "Shared", [], queues=8)
        with member("one-large", namesrv) as large, member("two-small", namesrv) as small:
            until = time.monotonic() + 30
            while len(large.assignment) + len(small.assignment) != 8 and time.monotonic() < until:
                time.sleep(0.05)  # as members join, the shares change
            print(f"large: {len(large.assignment)} queues, small: {len(small.assignment)}")


if __name__ == "__main__":
    main()
