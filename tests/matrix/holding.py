"""Sends that the brokers of a cluster have got, and neither carry out nor answer before they are told to.

What has to happen while a call waits happens when its send has come, and not after a guess of a time.
"""

from __future__ import annotations

from functools import partial

import trio

from rocketpy.wire.codes import RequestCode

__all__ = ["Holding"]

_SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


class Holding:
    """Holds sends of one cluster. Its methods are called in the loop of that."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._around = []
        self._more = 0
        self._held = []
        self._came = trio.Event()

    def hold(self, times):
        """Hold the next sends."""
        for broker in self._cluster.brokers:
            if not any(broker is each for each in self._around):
                self._around.append(broker)
                for code in _SENDS:
                    broker.lanes.replace(code, partial(self._holding, broker))
        self._more = times

    async def wait_held(self, count, timeout):
        """Wait until so many are held; whether they are."""
        with trio.move_on_after(timeout):
            while len(self._held) < count:
                await self._came.wait()
        return len(self._held) >= count

    def let_go(self):
        """Carry out what is held, and hold nothing more."""
        self._more, held, self._held = 0, self._held, []
        for carry_out in held:
            carry_out()

    def _holding(self, broker, processor):
        def process(connection, request):
            if not self._more:
                return processor(connection, request)
            self._more -= 1
            connection.forget_request(request)  # a broker that is stopped meanwhile waits for nobody
            self._held.append(partial(_carry_out, broker, processor, connection, request))
            came, self._came = self._came, trio.Event()
            came.set()
            return None

        return process


def _carry_out(broker, processor, connection, request):
    if connection.is_open:
        connection.recall_request(request)
        broker.lanes.submit("send", processor, connection, request)
        broker.lanes.finish()
