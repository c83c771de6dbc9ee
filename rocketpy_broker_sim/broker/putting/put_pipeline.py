"""The way of a message into the store: the stages that it goes through, in their order.

A stage takes a run: the messages that one read of a connection brought, or a single one. It passes them on as they
are, changes them, sends them elsewhere (a delayed message goes to the schedule topic), or refuses them. What a stage
looks at are properties that it names; a message that has none of them goes from the checks right into the store.
A service that puts a message which was checked long ago begins behind the checks.

Plays the part of the chain in SendMessageProcessor.sendMessage and of the PutMessageHooks of BrokerController.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs

from rocketpy.errors import BrokerError, StoreError
from rocketpy.logs import get_logger, quote
from rocketpy.remoting.connection import Connection
from rocketpy.wire.batch import BatchItem
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.send import SendMessageRequestHeader
from rocketpy_broker_sim.broker.putting.batch_items import RefusedBatch
from rocketpy_broker_sim.store.put_result import IncomingMessage, PutMessageResult

__all__ = ["Put", "PutPipeline", "Sent", "Stage", "StageOrder", "step"]

log = get_logger(__name__)

_REFUSED = ResponseCode.SYSTEM_ERROR, "the message was not stored: the disk refused, the log of the broker says what"


class StageOrder(enum.IntEnum):
    """The stages, in the order in which a message passes them."""

    CHECKS = 1
    """May it be sent at all, and where to: topic, queue and properties; a retry that is one too many goes to the dead
    letters."""
    HALF_MESSAGE = 2
    """A half message goes to the half topic. Its delay or timer begins when it is committed."""
    TIMER = 3
    """A message with a time of delivery goes to the timer's topic."""
    DELAY_LEVEL = 4
    """A message with a delay level goes to the schedule topic."""
    STORE = 5
    """It gets its place in queue and log."""


@attrs.define(eq=False)
class Put:
    """A message on its way.

    Attributes:
        message: What will be stored; the checks make it of a request.
        properties: Its properties where a stage may look at them, and the text in `message` is made of them at last;
            None when no stage watches any of them and the text stands there already.
        wait: Whether the answer has to wait for the disk, where the settings say so.
        new_topic: The topic that was made for it.
        sent: What brought it; None when a service puts it.
        result: What the store says; nothing was stored unless its status is PUT_OK.
        refusal: Code and remark of why it is not stored.
        error: What failed, for this message alone.
    """

    message: IncomingMessage | None = None
    properties: dict[str, str] | None = None
    wait: bool = True
    new_topic: str | None = None
    sent: Sent | None = None
    result: PutMessageResult | None = None
    refusal: tuple[int, str] | None = None
    error: Exception | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether it may still be stored."""
        return self.refusal is None and self.error is None

    def take_error(self) -> Exception | None:
        """What failed. It is the caller's then: by its traceback it holds this message, which must not hold it too."""
        error, self.error = self.error, None
        return error

    def check(self) -> None:
        """Raises what failed."""
        error = self.take_error()
        if error is not None:
            try:
                raise error
            finally:
                del error


@attrs.define(eq=False)
class Sent:
    """A request that brings a message, and what its answer will say.

    Attributes:
        connection: Whose it is.
        request: The request.
        header: Its header.
        items: Those of a batch where they have been read before, or what is wrong with them.
        queue_id: The queue that it was meant for.
        unique_key: The id of the message, which its client gave it or the broker.
    """

    connection: Connection
    request: RemotingCommand
    header: SendMessageRequestHeader
    items: Sequence[BatchItem] | RefusedBatch | None = None
    queue_id: int = 0
    unique_key: str | None = None


class Stage(Protocol):
    """One step of the way.

    Attributes:
        watches: Names of the properties that it looks at.
    """

    watches: frozenset[str]

    def take(self, puts: Sequence[Put]) -> None:
        """Deal with a run: each message goes on, is changed for where it shall go, or gets a refusal or an error."""
        ...


class PutPipeline:
    """The stages of one broker.

    Args:
        stages: all of them, in any order.

    Attributes:
        watched: Names of all the properties that stages look at.
    """

    def __init__(self, stages: Mapping[StageOrder, Stage]) -> None:
        self._stages = [(order, stages[order]) for order in sorted(stages)]
        self.watched = frozenset[str]().union(*(stage.watches for stage in stages.values()))

    def watched_behind(self, behind: StageOrder) -> frozenset[str]:
        """Names of all the properties that the stages behind one look at."""
        return frozenset[str]().union(*(stage.watches for order, stage in self._stages if order > behind))

    def take(self, puts: Sequence[Put], *, behind: StageOrder | None = None) -> None:
        """Lead a run through the stages; it counts once the turn has written it.

        Args:
            puts: the messages, in the order in which they are to be stored.
            behind: begin behind this stage.
        """
        for order, stage in self._stages:
            if behind is None or order > behind:
                stage.take([put for put in puts if put.is_under_way])


def step(puts: Sequence[Put], take: Callable[[Put], None]) -> None:
    """Do something with each message of a run; what it raises belongs to that message alone."""
    for put in puts:
        try:
            take(put)
        except BrokerError as exc:
            put.refusal = exc.code, exc.remark
        except StoreError as exc:
            topic = "" if put.message is None else put.message.topic
            log.error("a message for %s is not stored: %s", quote(topic), exc)
            put.refusal = _REFUSED
        except Exception as exc:  # noqa: BLE001  whatever it is, the others of the run go on
            put.error = exc
