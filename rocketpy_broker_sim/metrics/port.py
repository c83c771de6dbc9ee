"""The port of a server with `/metrics` and `/healthz`. Plays the part of PrometheusHttpServer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import TransportError
from rocketpy.logs import get_logger, quote
from rocketpy.remoting.network import LOOPBACK, Listener, Network, address_of_listener
from rocketpy.remoting.rounds import in_slices
from rocketpy.remoting.server import cannot_listen
from rocketpy_broker_sim.metrics.http import HttpConnection, Page, text_page
from rocketpy_broker_sim.metrics.page import Steps, page_steps

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import MetricsConfig
    from rocketpy_broker_sim.metrics.metric import Family

__all__ = ["MetricsPort"]

log = get_logger(__name__)

MOST_CONNECTIONS = 16
"""Connections at a time. To accept another, the one that has been idle the longest is closed, or one that stalls."""
MOST_WAITING = 16
"""Connections that wait while answers are under way on all others."""
ROOM_WITHIN = 0.5
"""Seconds that such a connection waits for the end of one of these answers, before it is refused."""
MOST_SAMPLES = 50_000
"""The largest number of samples that a metric has in an answer, unless a setting changes it."""
_PART = 16 * 1024
"""Bytes of a part of an answer."""
_ACCEPT_PAUSE = 0.1


class MetricsPort:
    """Shows the metrics and the health of one server.

    Args:
        config: where it listens.
        common: the labels of all samples.
        families: makes the families of one scrape.
        problems: returns why the server is unhealthy; nothing if it is healthy.
        most: the largest number of samples that a metric has in an answer.

    Attributes:
        address: Where it listens, as "host:port"; empty until it does.
    """

    def __init__(
        self,
        config: MetricsConfig,
        common: Mapping[str, str],
        families: Callable[[], Iterable[Family]],
        problems: Callable[[], Iterable[str]],
        most: int = MOST_SAMPLES,
    ) -> None:
        self.address = ""
        self._config = config
        self._common = common
        self._families = families
        self._problems = problems
        self._most = most
        self._pages = {"/metrics": self._metrics, "/healthz": self._health}
        self._connections: dict[HttpConnection, None] = {}  # the one that has been idle the longest comes first
        self._making = trio.Lock()
        self._waiting = trio.lowlevel.ParkingLot()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    # --- the pages -------------------------------------------------------------------------------------

    def _metrics(self) -> Page:
        steps = page_steps(self._families(), self._common, self._most)
        return Page(HTTPStatus.OK, self._parts(steps))

    async def _parts(self, steps: Steps) -> AsyncIterator[bytes]:
        """The text in parts. One part is made at a time, however many ask, and other tasks run meanwhile."""
        while True:
            async with self._making:
                part = await in_slices(_next_part(steps))
            if not part:
                return
            yield part

    def _health(self) -> Page:
        problems = [quote(problem) for problem in self._problems()]
        if problems:
            return text_page(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join(problems))
        return text_page(HTTPStatus.OK, "ok")

    # --- the port --------------------------------------------------------------------------------------

    async def serve(self, network: Network, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen and serve until cancelled; started when it listens.

        Raises:
            TransportError: the address cannot be listened on.
        """
        host, port = self._config.metrics_prom_exporter_host or LOOPBACK, self._config.metrics_prom_exporter_port
        try:
            listeners = await network.listen(host, port)
        except OSError as exc:
            raise TransportError(f"no metrics: {cannot_listen(host, port, exc)}", address=f"{host}:{port}") from exc
        self.address = address_of_listener(listeners[0])
        try:
            async with trio.open_nursery() as nursery:
                for listener in listeners:
                    nursery.start_soon(self._accept, listener, nursery)
                log.info("metrics are at http://%s/metrics", self.address)
                task_status.started()
        finally:
            for listener in listeners:
                await trio.aclose_forcefully(listener)

    @trio.lowlevel.enable_ki_protection
    async def _accept(self, listener: Listener, nursery: trio.Nursery) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError as exc:
                log.warning("the metrics port cannot accept a connection: %s", exc)
                await trio.sleep(_ACCEPT_PAUSE)
                continue
            nursery.start_soon(self._serve, stream)

    @trio.lowlevel.enable_ki_protection
    async def _serve(self, stream: trio.abc.Stream) -> None:
        if not (self._make_room() or await self._room_soon()):
            log.warning("the metrics port refused a connection: %d answers are under way", len(self._connections))
            await trio.aclose_forcefully(stream)
            return
        connection = HttpConnection(stream, self._pages, self._note_answered)
        self._connections[connection] = None
        try:
            await connection.run()
        except Exception:
            # A scrape reads every part of the server: an error in one of them must not end the server.
            log.exception("an answer of the metrics port failed")
        finally:
            if connection in self._connections:
                del self._connections[connection]
                self._waiting.unpark()

    def _note_answered(self, connection: HttpConnection) -> None:
        """A connection becomes the last one that is closed to make room. If somebody waits, it is closed at once.

        Otherwise 16 peers that always have a request ready would keep everybody else out.
        """
        self._connections[connection] = self._connections.pop(connection, None)
        if self._waiting:
            self._close(connection)
            self._waiting.unpark()

    def _make_room(self) -> bool:
        """Whether another connection may be served. The one that has been idle the longest makes room.

        If none is idle, one whose peer does not read its answer does: 16 such peers would keep everybody else out.
        """
        if len(self._connections) < MOST_CONNECTIONS:
            return True
        leaving = next((each for each in self._connections if each.is_idle), None)
        leaving = leaving or next((each for each in self._connections if each.is_stalled), None)
        if leaving is None:
            return False
        self._close(leaving)
        return True

    async def _room_soon(self) -> bool:
        """Wait until the peer of an answer that is under way has it. Returns whether there is room then."""
        if len(self._waiting) < MOST_WAITING:
            with trio.move_on_after(ROOM_WITHIN):
                while True:
                    await self._waiting.park()
                    if self._make_room():
                        return True
        return False

    def _close(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)
        connection.close()


def _next_part(steps: Steps) -> Generator[None, None, bytes]:
    """Collect text until there is enough for a part; b"" at the end."""
    found = bytearray()
    for text in steps:
        found += text
        if len(found) >= _PART:
            break
        yield
    return bytes(found)
