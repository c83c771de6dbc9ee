"""Sending without asking what becomes of it. Plays the part of sendOneway in DefaultMQProducerImpl."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.client.retries import SendKind
from rocketpy.client.sends.send_attempts import Sending
from rocketpy.client.sends.waiting import pass_turn, take_turn
from rocketpy.errors import RequestTimeoutError, RocketMQError
from rocketpy.message import PropertyName

if TYPE_CHECKING:
    from rocketpy.client.preparing.outgoing import Outgoing
    from rocketpy.client.sends.sending import Choice, SendCore
    from rocketpy.remoting.connection import Connection

__all__ = ["send_oneway"]

_LEAST = 0.001


async def send_oneway(
    core: SendCore,
    outgoing: Outgoing,
    *,
    choice: Choice | None,
    tries: int,
    timeout: float,
    deadline: float | None = None,
) -> None:
    """Send once and ask for no answer; waits only while the connection is full, or is not there yet.

    A deadline, on the clock of the client, is given if some of the seconds of the timeout may have passed.

    Raises:
        RequestTimeoutError: the broker does not read what is sent to it.
        RocketMQError: it could not even be written.
    """
    if deadline is None:
        deadline = core.clock() + timeout
    kind = core.kind(outgoing, choice)
    key = None
    if kind is SendKind.KEYED:
        key = outgoing.message.topic, outgoing.message.wire_properties[PropertyName.SHARDING_KEY]
    elif kind is SendKind.PLAIN:
        kind = SendKind.ONEWAY
    sending = Sending(core, outgoing, kind, choice, tries, deadline, timeout)
    if key is not None:
        await take_turn(core.order, key, deadline, timeout)
    try:  # nothing comes in between, where Ctrl-C could strike
        connection = await _written(sending)
    except RocketMQError:
        sending.gave_up()
        raise
    finally:
        if key is not None:
            pass_turn(core.order, key)
    await connection.checkpoint_if_due()
    if not connection.is_full:
        return
    with trio.move_on_at(deadline):
        await connection.wait_writable()
        return
    raise RequestTimeoutError(
        f"{connection.address} has not read for {timeout:g} s; it is unknown whether a message for {outgoing.topic} "
        "will arrive",
        address=connection.address,
        timeout=timeout,
    )


async def _written(sending: Sending) -> Connection:
    """Write it, once more where an attempt came to nothing; the connection that it is on."""
    core, outgoing = sending.core, sending.outgoing
    while True:
        queue = sending.queue(core.client.routes.publish_info(outgoing.topic) or await sending.route())
        broker_name, address, started = queue.broker_name, None, core.clock()
        try:
            broker_name, address = core.target(queue)
            left = max(_LEAST, sending.deadline - started)
            connection = core.client.pool.nowait(address) or await core.client.pool.get(address, timeout=left)
            if outgoing.timed:
                await core.versions.check_timing(broker_name, address, timeout=left / 2)
            core.write_oneway(outgoing, queue, broker_name, connection)
        except RocketMQError as error:
            if core.was_forbidden(error):
                raise
            sending.note(queue, broker_name, address, error, started)
            then = sending.then(error)
            if then is None:
                break
            await sending.get_ready(then)
        else:
            return connection
    raise sending.verdict()
