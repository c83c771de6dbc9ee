"""The retries of what a source asks name servers and brokers: first bare, then by a policy that options describe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import trio

from rocketpy.errors import RocketMQError
from rocketpy.logs import get_logger
from rocketpy.remoting.backoff import retrying

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.spark.source.options import SourceOptions

__all__ = ["retried"]

logger = get_logger(__name__)

T = TypeVar("T")


async def retried(
    ask: Callable[[], Awaitable[T]],
    options: SourceOptions,
    *,
    doing: str,
    client: MQClientInstance | None = None,
    topics: Iterable[str] = (),
) -> T:
    """Ask, and ask again after failures that may pass.

    Args:
        ask: asks once.
        options: say how often, and after what pauses.
        doing: what is asked, for logs and errors.
        client: refreshes the routes of `topics` before each further attempt, as a broker may be somewhere else by then.
        topics: the topics.

    Raises:
        RocketMQError: the last attempt failed, or a failure that does not pass; a note says what was asked.
    """
    try:
        return await ask()
    except RocketMQError as error:
        if not error.retriable or not options.retries:
            error.add_note(f"while {doing}")
            raise
        logger.warning("%s failed, trying again: %s", doing, error)

    async def again() -> T:
        if client is not None:
            with suppress(RocketMQError):  # the request itself says more
                for topic in topics:
                    await client.routes.refresh(topic)
        return await ask()

    policy = retrying(attempts=options.retries, wait=lambda _: options.retry_interval)
    try:
        await trio.sleep(options.retry_interval)
        return await policy(again)
    except RocketMQError as error:
        error.add_note(f"while {doing}, tried {options.retries + 1} times")
        raise
