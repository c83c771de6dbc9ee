"""The ways in which producers send, all but transactions.

They run in a loop with a `MockClock`.
"""

from __future__ import annotations

from functools import partial

import attrs
import trio

from rocketpy import RocketMQError
from rocketpy.errors import IllegalOperationError, ReplyTimeoutError, SendManyError
from rocketpy.message import MessageQueue
from rocketpy.results import SendResult
from rocketpy.seams import wall_ms
from rocketpy.wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.checker import Outcome, Send, Timed, Violation
from tests.schedules.producers.members import Draft, Member, Way, outcome_of
from tests.schedules.producers.plan import QUESTIONS, TOPIC

__all__ = ["ALL", "answer_to"]

DELAYS = (1.0, 1.4, 2.0, 5.7, 12.0, 25.0)
LEVELS = {1: 1.0, 2: 5.0, 3: 10.0, 4: 30.0}
LARGE = 6000
"""Bytes that are compressed."""
FRAME = 4


def answer_to(body: bytes) -> bytes:
    """The body of the reply to a request."""
    return b"re: " + body


# --- at once ----------------------------------------------------------------------------------------------


async def plain(member: Member, *, size: int = 0, key: bool = False, queue: bool = False) -> None:
    """Send one message and wait."""
    chance, within = member.world.chance, member.timeout()
    fields = {"sharding_key": f"k{chance.randrange(4)}"} if key else {}
    draft = member.draft(size=size, **fields)
    goal = None
    if queue:
        broker = chance.choice(member.world.cluster.brokers).config.broker_name
        goal = MessageQueue(TOPIC, broker, 0)
    send = partial(member.producer.send, draft.message, queue=goal, timeout=within)
    await member.send([draft], member.call("a send", within), send)


async def batch(member: Member) -> None:
    """Send some messages in one frame."""
    within = member.timeout()
    drafts = [member.draft() for _ in range(member.world.chance.randrange(2, 8))]
    send = partial(member.producer.send_batch, [each.message for each in drafts], timeout=within)
    await member.send(drafts, member.call("a batch", within), send)


async def oneway(member: Member) -> None:
    """Send a message and do not ask what becomes of it."""
    draft, call = member.draft(), member.call("a one-way send", member.producer.config.send_timeout)
    outcome = Outcome.INFO
    try:
        await member.producer.send_oneway(draft.message)
    except RocketMQError as error:
        outcome = outcome_of(error)
    except trio.Cancelled:
        call.is_over = True
        raise
    finally:
        if not call.is_over:
            call.answers.append(trio.current_time())
        member.world.history.sends.append(draft.told(outcome))


async def many(member: Member) -> None:
    """Send many messages, in frames of a few that are under way together."""
    within, failures = member.timeout(), list[SendManyError]()
    drafts = [member.draft() for _ in range(member.world.chance.randrange(5, 15))]
    call, outcomes = member.call("a send of many", within), [Outcome.INFO] * len(drafts)
    try:
        result = await member.producer.send_many(
            [each.message for each in drafts], batch_size=FRAME, timeout=within, on_failure=failures.append
        )
        outcomes = [Outcome.OK] * len(drafts)
        for failure in failures:
            cause = failure.__cause__
            assert isinstance(cause, RocketMQError)
            for number in range(failure.first, failure.last + 1):
                outcomes[number] = outcome_of(cause)
        if (result.messages, result.failed) != (outcomes.count(Outcome.OK), len(drafts) - outcomes.count(Outcome.OK)):
            member.world.history.wrong.append(Violation("I22", f"{call.name}: {result}, and told of {failures}"))
    except RocketMQError as error:
        outcomes = [outcome_of(error)] * len(drafts)
    except trio.Cancelled:
        call.is_over = True
        raise
    finally:
        if not call.is_over:
            call.answers.append(trio.current_time())
        member.world.history.sends += [each.told(what) for each, what in zip(drafts, outcomes, strict=True)]


async def called_back(member: Member) -> None:
    """Send some messages and go on."""
    for _ in range(member.world.chance.randrange(1, 6)):
        member.start(member.draft(), member.timeout())


async def together(member: Member) -> None:
    """Send some messages at the same time, which linger so that they travel in batches."""
    first = member.draft()
    alike = {"tags": first.message.tags, "properties": {"amount": first.message.properties["amount"]}}
    drafts = [first, *(member.draft(**alike) for _ in range(member.world.chance.randrange(1, 10)))]
    async with trio.open_nursery() as nursery:
        for draft in drafts:
            within = member.timeout()
            send = partial(member.producer.send, draft.message, timeout=within)
            call = member.call("a send that lingers", within)
            nursery.start_soon(partial(member.send, [draft], call, send, in_turn=False))


async def request(member: Member) -> None:
    """Ask a question."""
    within = member.timeout()
    draft, call, outcome = member.draft(QUESTIONS), member.call("a request", within), Outcome.INFO
    try:
        reply = await member.producer.request(draft.message, timeout=within)
        outcome = Outcome.OK
        if reply.body != answer_to(draft.message.body):
            member.world.history.wrong.append(Violation("I5", f"the reply to {draft.name} is {reply.body[:60]!r}"))
    except ReplyTimeoutError:
        outcome = Outcome.OK
    except RocketMQError as error:
        outcome = outcome_of(error)
    except trio.Cancelled:
        call.is_over = True
        raise
    finally:
        if not call.is_over:
            call.answers.append(trio.current_time())
        member.world.history.sends.append(draft.told(outcome))


# --- later ------------------------------------------------------------------------------------------------


async def level(member: Member) -> None:
    """Send a message with a delay level."""
    number = member.world.chance.choice(list(LEVELS))
    draft = member.draft(waits=True, delay_level=number)
    try:
        await _send(member, draft)
    finally:
        send, history = member.last, member.world.history
        history.timed[draft.name] = Timed(send=send, delay=LEVELS[number], is_level=True)
        history.aside.append(draft.aside(send, SCHEDULE_TOPIC, number - 1, member.result))


async def later(member: Member, *, at: bool = False, recalled: bool = False) -> None:
    """Send a message with a delay or a time of delivery, and perhaps recall it."""
    chance, history = member.world.chance, member.world.history
    seconds = chance.choice(DELAYS[3:] if recalled else DELAYS)
    moment = wall_ms() + round(seconds * 1000)
    draft = member.draft(waits=True, **({"deliver_at": moment} if at else {"delay": seconds}))
    try:
        result = await _send(member, draft)
    finally:
        send = member.last
        timed = Timed(send=send, delay=None if at else seconds, deliver_at=moment / 1000)
        history.timed[draft.name] = timed
        # A broker to which it came when it was due has put it into its topic at once.
        is_aside = not at or max(history.clock.ahead(send.began, send.ended)) + send.ended < moment / 1000
        known = draft.aside(send, TIMER_TOPIC, 0, member.result)
        history.aside.append(known if is_aside else attrs.evolve(known, outcome=Outcome.INFO, place=None))
    if recalled and result is not None:
        await trio.sleep(chance.uniform(0.0, seconds + 0.5))
        await _recall(member, timed, result)


async def _send(member: Member, draft: Draft) -> SendResult | None:
    within = member.timeout()
    send = partial(member.producer.send, draft.message, timeout=within)
    return await member.send([draft], member.call("a send for later", within), send)


async def _recall(member: Member, timed: Timed, result: SendResult) -> None:
    within, history = member.timeout(), member.world.history
    call = member.call("a recall", within)
    assert result.recall_handle is not None
    marker = f"recall:{result.message_id}"
    history.aside.append(Send(id=marker, topic=TIMER_TOPIC, body=b"", outcome=Outcome.INFO, began=call.began))
    timed.is_unsure = True
    try:
        await member.producer.recall(TOPIC, result.recall_handle, timeout=within)
        timed.recalled, timed.is_unsure = trio.current_time(), False
        history.had["recalled"] += 1
    except IllegalOperationError:
        timed.is_unsure = False
        history.had["recalled too late"] += 1
    except RocketMQError:
        pass
    except trio.Cancelled:
        call.is_over = True
        raise
    finally:
        if not call.is_over:
            call.answers.append(trio.current_time())


ALL: dict[str, Way] = {
    "send": plain,
    "keyed": partial(plain, key=True),
    "queue": partial(plain, queue=True),
    "large": partial(plain, size=LARGE),
    "batch": batch,
    "oneway": oneway,
    "many": many,
    "called back": called_back,
    "together": together,
    "request": request,
    "level": level,
    "delay": later,
    "deliver_at": partial(later, at=True),
    "recall": partial(later, recalled=True),
}
