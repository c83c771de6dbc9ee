"""The producer of a kill loop as a process: `python -m tests.kill.producing NAME_SERVER NAME LANES PAUSE`.

Each lane awaits a send before the next one. A send that failed is never tried again by the lane, so that every id is
sent by one call. Ends in order at SIGTERM.
"""

from __future__ import annotations

import itertools
import sys

import trio

from rocketpy.errors import ConnectError, RocketMQError, RouteNotFoundError, SendError
from rocketpy.producer import Producer
from rocketpy.results import SendStatus
from tests.kill.content import message_of
from tests.kill.telling import tell, until_terminated

AFTER_FAILURE = 0.1


def never_left(error: RocketMQError) -> bool:
    """Whether nothing was sent, so that the message cannot be stored."""
    if isinstance(error, SendError):
        return all(isinstance(attempt.error, ConnectError) for attempt in error.attempts)
    return isinstance(error, ConnectError | RouteNotFoundError)


async def send(producer: Producer, name: str) -> bool:
    """Send one message and tell what came of it; whether it was acknowledged."""
    tell("send", name)
    try:
        result = await producer.send(message_of(name))
    except RocketMQError as error:
        tell("fail" if never_left(error) else "info", name, type(error).__name__)
        return False
    kind = "ok" if result.status is SendStatus.SEND_OK else "info"
    tell(kind, name, result.queue.queue_id, result.queue_offset, result.message_id, result.offset_message_id)
    return kind == "ok"


async def lane(producer: Producer, name: str, pause: float, end: trio.Event) -> None:
    """Send until the end."""
    for number in itertools.count():
        if end.is_set():
            return
        stored = await send(producer, f"{name}-{number}")
        await trio.sleep(pause if stored else AFTER_FAILURE)


async def main(name_server: str, name: str, lanes: int, pause: float) -> None:
    """Produce until SIGTERM."""
    async with until_terminated() as end, Producer("kill-loop", namesrv=name_server) as producer:
        tell("ready", name)
        async with trio.open_nursery() as nursery:
            for number in range(lanes):
                nursery.start_soon(lane, producer, f"{name}.{number}", pause, end)
    tell("bye", name)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
