"""Waiting for SIGINT or SIGTERM on trio, for `run_forever`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

import trio

from rocketpy.logs import get_logger

__all__ = ["listen_to_signals"]

logger = get_logger("rocketpy.consumer.push")


@contextmanager
def listen_to_signals() -> Iterator[Callable[[], Awaitable[None]]]:
    """Yield a function that waits for SIGINT or SIGTERM; the signal after it acts as usual.

    Outside the main thread, which alone gets signals, the function waits forever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield trio.sleep_forever
        return
    with ExitStack() as listening:
        signals = listening.enter_context(trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM))

        async def first() -> None:
            number = await anext(signals)
            listening.close()
            logger.info("stopping on %s", signal.Signals(number).name)

        yield first
