"""The stage of the put pipeline that puts messages with a time of delivery into the timer's topic.

Plays the timer part of handleScheduleMessage and transformTimerMessage in HookUtils.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rocketpy.message import PropertyName
from rocketpy.seams import random_source, wall_ms
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.names import TIMER_TOPIC
from rocketpy_broker_sim.broker.delays.delay import TIMER_PROPERTIES, delay_level
from rocketpy_broker_sim.broker.putting.put_pipeline import step
from rocketpy_broker_sim.broker.timer.times import asked_ms, slot_ms
from rocketpy_broker_sim.store.queue.dispatch_request import is_consumable

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.putting.put_pipeline import Put
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.put_result import IncomingMessage

__all__ = ["TimerStage"]

_OFF = "accurate timer message is not enabled here (timerWheelEnable=false): send with a delay level instead"


class TimerStage:
    """Puts messages with a time of delivery into the timer's topic.

    Args:
        config: the settings of the store.
        count_in: returns the number of messages in the slot that begins at a time, ms.
        refusal: returns code and remark if the queue for the delivery cannot be made; None if it can.
    """

    watches = frozenset(TIMER_PROPERTIES)

    def __init__(
        self,
        config: MessageStoreConfig,
        count_in: Callable[[int], int],
        refusal: Callable[[IncomingMessage], tuple[int, str] | None],
    ) -> None:
        self._config = config
        self._count_in = count_in
        self._refusal = refusal

    def take(self, puts: Sequence[Put]) -> None:
        """Put messages into the timer's topic whose time of delivery has not come.

        A delay level takes precedence. Messages that were in the timer before, and half messages, pass unchanged.
        """
        step(puts, self._take)

    def _take(self, put: Put) -> None:
        message, properties = put.message, put.properties
        if message is None or properties is None or self.watches.isdisjoint(properties):
            return
        if (delay_level(properties) or 0) > 0 or PropertyName.TIMER_OUT_MS in properties:
            return
        if message.topic != TIMER_TOPIC and is_consumable(message.sys_flag):
            put.refusal = self._take_timed(message, properties)

    def refusal(self, properties: dict[str, str]) -> tuple[int, str] | None:
        """Returns the refusal of a message with these properties whose time the timer does not accept; None without."""
        if self.watches.isdisjoint(properties) or (delay_level(properties) or 0) > 0:
            return None
        return self._moment(properties, wall_ms())[1]

    def _take_timed(self, message: IncomingMessage, properties: dict[str, str]) -> tuple[int, str] | None:
        """Put one message into the timer's topic, unless its time has come. Returns the refusal, None without one."""
        now = wall_ms()
        moment, refusal = self._moment(properties, now)
        if refusal is not None or moment is None:
            return refusal
        if moment <= now:
            if PropertyName.TIMER_DEL_UNIQUE_KEY in properties:
                return ResponseCode.MESSAGE_ILLEGAL, "the message to be recalled is already due"
            return None
        slot = slot_ms(moment, self._config.timer_precision_ms)
        refusal = self._congestion(slot) or self._refusal(message)
        if refusal is None:
            _to_timer_topic(message, properties, slot)
        return refusal

    def _moment(self, properties: dict[str, str], now: int) -> tuple[int | None, tuple[int, str] | None]:
        """The time that properties ask for, in ms since 1970, None for none; and the refusal, None without one."""
        config = self._config
        if not config.timer_wheel_enable:
            return None, (ResponseCode.SYSTEM_ERROR, _OFF)
        try:
            moment = asked_ms(properties, now)
        except ValueError as exc:
            return None, (ResponseCode.MESSAGE_ILLEGAL, f"the timer message is illegal: its time of delivery {exc}")
        most = config.timer_max_delay_sec * 1000
        if moment is not None and moment - now > most:
            remark = f"the timer message is illegal: it may be due at most {most} ms from now (timerMaxDelaySec)"
            return None, (ResponseCode.MESSAGE_ILLEGAL, remark)
        return moment, None

    def _congestion(self, slot: int) -> tuple[int, str] | None:
        """Returns the refusal of a full slot: the further it is beyond the limit, the more messages are refused."""
        limit, count = self._config.timer_congest_num_each_slot, self._count_in(slot)
        if count <= limit:
            return None
        if count < 2 * limit and random_source().random() * limit > count - limit:
            return None
        remark = f"too many timer messages are due in the same slot: it has {count} (timerCongestNumEachSlot={limit})"
        return ResponseCode.SYSTEM_ERROR, remark


def _to_timer_topic(message: IncomingMessage, properties: dict[str, str], slot: int) -> None:
    """Redirect a message to the timer's topic. Its properties keep its real topic and queue."""
    properties[PropertyName.TIMER_OUT_MS] = str(slot)
    properties[PropertyName.REAL_TOPIC] = message.topic
    properties[PropertyName.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic, message.queue_id = TIMER_TOPIC, 0
