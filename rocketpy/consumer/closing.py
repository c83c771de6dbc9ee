"""How a push consumer waits for its listeners as it closes, and says so, so that no wait is silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.logs import counted, get_logger

if TYPE_CHECKING:
    from rocketpy.consumer.calling.consume_service import ConsumeService

__all__ = ["PATIENCE", "stop_listeners"]

logger = get_logger(__name__)

PATIENCE = 1.0
"""Seconds of waiting after which a consumer says what it waits for."""


async def stop_listeners(consume: ConsumeService, group: str, seconds: float) -> None:
    """Start no more calls, and give those that run up to `seconds` to finish; log after a second which ones do."""
    until = trio.current_time() + seconds
    with trio.move_on_after(min(PATIENCE, seconds)) as quiet:
        await consume.stop()
    if not quiet.cancelled_caught:
        return
    if trio.current_time() < until:
        left = until - trio.current_time()
        logger.warning("closing the consumer of group %s: waiting up to %.0f s for %s", group, left, _what(consume))
        with trio.move_on_at(until) as waiting:
            await consume.stop()
        if not waiting.cancelled_caught:
            return
    if not consume.is_busy:  # without any patience, `stop` cannot return even when there is nothing to wait for
        return
    logger.warning(
        "listeners of %s are still running after %g s: messages that they have not finished come again", group, seconds
    )


def _what(consume: ConsumeService) -> str:
    """What is waited for: calls of listeners, or failed messages that are sent back."""
    calls = consume.running()
    if not calls:
        return "failed messages on their way back to a broker"
    call, since = min(calls, key=lambda each: each[1])
    oldest = f"{call[1].queue}, running for {trio.current_time() - since:.0f} s"
    return f"{counted(len(calls), 'listener call')} ({'' if len(calls) == 1 else 'the oldest: '}{oldest})"
