"""python -m tests.hostile.launch METER tests.hostile.subject PAIR SEEN KEPT NAMESRV BROKER GATE: a client to attack.

Consumers of every kind, a producer, and one of transactions share a client that reaches the broker through a gate,
where an attacker inserts requests. In the same loop, an innocent producer and an innocent consumer have clients of
their own.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import trio

from rocketpy import (
    ConsumeFromWhere,
    LitePullConsumer,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageModel,
    MQClientInstance,
    Producer,
    PullConsumer,
    PushConsumer,
    RocketMQError,
    TransactionProducer,
)
from tests.hostile import innocent
from tests.hostile.board import Board
from tests.hostile.samples import DRIVEN, group_of

KINDS = ("concurrent", "orderly", "broadcast", "lite", "pull")
"""The number of queues of the consumers that are attacked."""
WORDS = (*KINDS, "started", "checked")
QUEUES = 4
CHECKED = b"checked in the end"
"""The body of the half message that the harness asks about."""
_BESIDE = "Beside"
_SOON = {
    "persist_consumer_offset_interval": 0.2,
    "consume_from_where": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
}


class Seen:
    """Counts the different messages that each kind of consumer has got, of those with a certain start of the body."""

    def __init__(self, board: Board, kind: str, kept: bytes) -> None:
        self._board, self._kind, self._kept = board, kind, kept
        self._bodies: set[bytes] = set()

    def __call__(self, message: MessageExt) -> None:
        if message.body.startswith(self._kept):
            self._bodies.add(message.body)
            self._board[self._kind] = len(self._bodies)


class Checker:
    """Does not know how any transaction has ended, and counts those that the harness asks about."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def __call__(self, message: MessageExt) -> LocalTransactionState:
        if message.body == CHECKED:
            self._board["checked"] += 1
        return LocalTransactionState.UNKNOWN


class Pair:
    """The innocent pair: a producer sends ten messages a second, and a consumer gets each of them soon after."""

    def __init__(self, board: Board) -> None:
        self._board = board

    async def send(self, producer: Producer) -> None:
        while True:
            began = self._board["asked 0"] = time.monotonic_ns()
            try:
                await producer.send(Message(_BESIDE, b"%d" % began))
            except RocketMQError as error:
                self._board["failed 0"] += 1
                self._board.line = f"sends: {error}"
            self._note(0, began)
            self._board["asked 0"] = 0
            await trio.sleep(innocent.EVERY)

    async def take(self, message: MessageExt) -> None:
        await trio.lowlevel.checkpoint()
        self._note(1, int(message.body))
        # The time from which on the next message is late.
        self._board["asked 1"] = time.monotonic_ns() + round(2 * innocent.EVERY * 1e9)

    def _note(self, number: int, began: int) -> None:
        board = self._board
        board[f"worst {number}"] = max(board[f"worst {number}"], time.monotonic_ns() - began)
        board[f"answered {number}"] += 1


def pushing(client: MQClientInstance, kind: str, seen: Seen) -> PushConsumer:
    """A push consumer of one of the kinds."""
    model = MessageModel.BROADCASTING if kind == "broadcast" else MessageModel.CLUSTERING
    consumer = PushConsumer(group_of(kind), client=client, orderly=kind == "orderly", message_model=model, **_SOON)
    consumer.subscribe(DRIVEN, seen)
    return consumer


async def poll(consumer: LitePullConsumer, seen: Seen) -> None:
    async for message in consumer:
        seen(message)


async def pull(consumer: PullConsumer, seen: Seen) -> None:
    """Pull from the queues in turn, forever."""
    positions = dict.fromkeys(await consumer.fetch_message_queues(DRIVEN), 0)
    while True:
        for queue in positions:
            try:
                found = await consumer.pull(queue, positions[queue])
            except RocketMQError:
                continue  # the connection was closed
            positions[queue] = found.next_begin_offset
            for message in found.messages:
                seen(message)
        await trio.sleep(innocent.EVERY)


async def serve(pair: Board, board: Board, kept: str, namesrv: str, broker: str, gate: str) -> None:
    """Run all of them until the process is interrupted."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        nursery = await enter(trio.open_nursery())
        await run_innocents(Pair(pair), namesrv, stack, nursery)
        seen = {kind: Seen(board, kind, kept.encode()) for kind in KINDS}
        attacked = await enter(MQClientInstance(namesrv=namesrv, address_map={broker: gate}))
        producer = await enter(Producer(group_of("producer"), client=attacked))
        await producer.create_topic(DRIVEN, queues=QUEUES)
        asked = TransactionProducer(
            group_of("transactions"), client=attacked, checker=Checker(board), check_thread_pool_max_size=1
        )
        await enter(asked)
        for kind in ("concurrent", "orderly", "broadcast"):
            await enter(pushing(attacked, kind, seen[kind]))
        lite = LitePullConsumer(group_of("lite"), client=attacked, auto_commit_interval=1.0, **_SOON)
        lite.subscribe(DRIVEN)
        nursery.start_soon(poll, await enter(lite), seen["lite"])
        nursery.start_soon(pull, await enter(PullConsumer(group_of("pull"), client=attacked)), seen["pull"])
        board["started"] = 1
        await trio.sleep_forever()


async def run_innocents(pair: Pair, namesrv: str, stack: AsyncExitStack, nursery: trio.Nursery) -> None:
    """Start the innocent producer and the innocent consumer."""
    producer = await stack.enter_async_context(Producer("beside", namesrv=namesrv))
    await producer.create_topic(_BESIDE, queues=1)
    consumer = PushConsumer("beside", namesrv=namesrv)
    consumer.subscribe(_BESIDE, pair.take)
    await stack.enter_async_context(consumer)
    nursery.start_soon(pair.send, producer)


def main(arguments: Sequence[str]) -> int:
    """The command; an interrupt ends it."""
    pair, seen, *others = arguments
    logging.basicConfig(level=logging.INFO)
    try:
        trio.run(partial(serve, Board(Path(pair), innocent.WORDS), Board(Path(seen), WORDS), *others))
    except* KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
