"""Long polls as a part of the broker: pulls that wait, what wakes them, and how they are run again."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from rocketpy_broker_sim.broker.lanes import MOST_PENDING
from rocketpy_broker_sim.broker.long_polling import HeldPull, HeldPulls
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem

if TYPE_CHECKING:
    from rocketpy.remoting.dispatch import Processor
    from rocketpy_broker_sim.broker.lanes import Lanes
    from rocketpy_broker_sim.broker.turn import Turn
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["Pulls"]


class Pulls(Subsystem):
    """The pulls that wait.

    Args:
        config: the settings.
        lanes: run a pull again.
        turn: lets the answers go.
        pull_again: answers a pull that was held.
    """

    def __init__(self, config: BrokerConfig, lanes: Lanes, turn: Turn, pull_again: Processor) -> None:
        self._lanes = lanes
        self._turn = turn
        self._pull_again = pull_again
        self.held = HeldPulls(self._resume, config.max_held_pulls)

    def _resume(self, pull: HeldPull) -> None:
        self._lanes.submit("pull", self._pull_again, pull.connection, pull.request)
        if self._turn.pending_bytes > MOST_PENDING:
            # A thousand groups may wait for the same messages: their answers must not gather.
            self._turn.finish()

    def run(self) -> Iterable[Service]:
        """Answering pulls whose time is up."""
        yield partial(self.held.serve, self._turn.finish)

    def settle(self) -> None:
        """Answer all pulls, and hold none any more."""
        self.held.close()
