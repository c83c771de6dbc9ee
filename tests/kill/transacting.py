"""The producer of transactions of a kill loop as a process: `python -m tests.kill.transacting NAME_SERVER NAME BROKER`.

How a transaction ends follows from its id, so that any life of this process can be asked about any of them. At SIGTERM
it sends no more, and stays to be asked until every transaction has ended.
"""

from __future__ import annotations

import itertools
import sys
from functools import partial

import trio

from rocketpy.errors import RocketMQError
from rocketpy.message import Message, MessageExt
from rocketpy.producer import TransactionProducer
from rocketpy.results import LocalTransactionState, SendStatus
from tests.interop import probe
from tests.kill.content import TRANSACTED, TRANSACTORS, State, body_of, name_of, tag_of, verdict_of
from tests.kill.producing import never_left
from tests.kill.telling import tell, until_terminated

AFTER_FAILURE = 0.1
PAUSE = 0.01
LOOK_EVERY, LOOKS = 0.2, 3
RUNTIME_INFO = 28
STATES = {
    State.COMMIT: LocalTransactionState.COMMIT,
    State.ROLLBACK: LocalTransactionState.ROLLBACK,
    State.UNKNOWN: LocalTransactionState.UNKNOWN,
}


def execute(message: Message, _arg: object) -> LocalTransactionState:
    """What is known of a transaction at first."""
    return STATES[verdict_of(name_of(message.body))[0]]


def check(message: MessageExt) -> LocalTransactionState:
    """What is known of it later."""
    name = name_of(message.body)
    tell("asked", name)
    return STATES[verdict_of(name)[1]]


async def send(producer: TransactionProducer, name: str) -> bool:
    """Begin one transaction and tell what came of it; whether its half message was taken."""
    message = Message(TRANSACTED, body_of(name), keys=name, tags=tag_of(name), properties={"copy": name})
    tell("half", name)
    try:
        result = await producer.send_in_transaction(message)
    except RocketMQError as error:
        tell("unsent" if never_left(error) else "unknown", name, type(error).__name__)
        return False
    taken = result.status is SendStatus.SEND_OK
    tell("taken" if taken else "unknown", name, result.local_state.name)
    return taken


def open_transactions(broker: str) -> int:
    """How many half messages the broker still looks at."""
    table = probe.call(broker, RUNTIME_INFO).json()["table"]
    base, end = map(int, table["halfMessageOffset"].split(","))
    return end - base


async def until_all_have_ended(broker: str) -> None:
    """Stay to be asked.

    One look is not enough: between the moment when the copy of a half message is written and the moment when it can be
    read, the half topic seems to be done.
    """
    in_a_row = 0
    while in_a_row < LOOKS:
        await trio.sleep(LOOK_EVERY)
        in_a_row = 0 if await trio.to_thread.run_sync(partial(open_transactions, broker)) else in_a_row + 1


async def main(name_server: str, name: str, broker: str) -> None:
    """Send until SIGTERM."""
    settings = {"namesrv": name_server, "topics": [TRANSACTED]}
    async with (
        until_terminated() as end,
        TransactionProducer(TRANSACTORS, checker=check, executor=execute, **settings) as producer,
    ):
        tell("ready", name)
        for number in itertools.count():
            if end.is_set():
                break
            await trio.sleep(PAUSE if await send(producer, f"{name}.0-{number}") else AFTER_FAILURE)
        await until_all_have_ended(broker)
    tell("bye", name)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:4])
