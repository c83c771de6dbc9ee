"""Data loss: messages that a read should return, but that the broker does not have any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import RocketMQError
from rocketpy.logs import get_logger

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue

__all__ = ["DataLossError", "lost"]

logger = get_logger(__name__)


class DataLossError(RocketMQError):
    """Messages that should be read are gone, and `failOnDataLoss` (`fail_on_data_loss` of `rdd`) is true.

    Attributes:
        queue: The MessageQueue.
        start: The first offset that is gone.
        until: The first offset after those that are gone.
    """

    def __init__(self, message: str, *, queue: MessageQueue, start: int, until: int) -> None:
        super().__init__(message)
        self.queue = queue
        self.start = start
        self.until = until


def lost(queue: MessageQueue, start: int, until: int, why: str, *, fail: bool) -> None:
    """Messages of a queue are gone: fail, or warn and let the caller go on.

    Args:
        queue: the queue.
        start: the first offset that is gone.
        until: the first offset after those that are gone.
        why: what the broker has instead.
        fail: the option `failOnDataLoss`.

    Raises:
        DataLossError: `fail` is true.
    """
    text = f"the messages of {queue} from offset {start} to {until} are gone: {why}"
    if fail:
        remedy = "start at offsets that still exist, or set failOnDataLoss to false (fail_on_data_loss=False) to go on"
        raise DataLossError(f"{text}; {remedy}", queue=queue, start=start, until=until)
    logger.warning("%s; going on without them, as failOnDataLoss is false", text)
