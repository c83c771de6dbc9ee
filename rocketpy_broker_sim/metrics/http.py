"""One HTTP connection: a few pages for GET and HEAD, with h11 over a trio stream. Plays the part of Java's HTTPServer.

Whatever a peer does, it takes a bounded time and a bounded number of bytes: the head of a request must arrive within
seconds and fit into 8 KiB, a body is not read, and a peer that does not read an answer is disconnected.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

import h11
import trio

from rocketpy.logs import get_logger
from rocketpy_broker_sim.metrics.page import CONTENT_TYPE

__all__ = ["HttpConnection", "Page", "Pages", "text_page"]

log = get_logger(__name__)

IDLE_WITHIN = 75.0
"""Seconds that a connection may wait for its next request: more than the minute between two scrapes of Prometheus."""
HEAD_WITHIN = 5.0
"""Seconds in which the head of a request must be complete, from its first byte on."""
PART_WITHIN = 10.0
"""Seconds in which the peer must read a part of an answer."""
ANSWER_WITHIN = 60.0
"""Seconds in which the peer must read a whole answer."""
STALLED_AFTER = 1.0
"""Seconds without reading a part of an answer, after which a peer makes room for another one."""
LINGER = 1.0
"""Seconds that the peer has to read the last answer, before the connection is closed."""
MAX_HEAD = 8 * 1024
"""Bytes of the head of a request."""
MAX_LINGERING = 64 * 1024
"""Bytes that are read and dropped in this time."""
_CHUNK = 4096
_PLAIN = "text/plain; charset=utf-8"
_METHODS = ("GET", "HEAD")


class Page(NamedTuple):
    """An answer.

    Attributes:
        status: Its status.
        body: The whole text, or its parts, which are made while it is sent.
        content_type: What the text is.
        allow: The methods that are allowed, for an answer that says so.
    """

    status: HTTPStatus
    body: bytes | AsyncIterator[bytes]
    content_type: str = CONTENT_TYPE
    allow: str = ""


Pages = Mapping[str, Callable[[], Page]]
"""By path: makes the page for one request."""


def text_page(status: HTTPStatus, text: str) -> Page:
    """A page with a plain text."""
    return Page(status, f"{text}\n".encode(), _PLAIN)


class HttpConnection:
    """Serves one connection.

    Args:
        stream: the connection.
        pages: the pages, by path.
        answered: called with the connection after each answer.

    Attributes:
        is_idle: Whether it waits for a request, with or without a part of it: it may be closed to make room.
    """

    def __init__(
        self, stream: trio.abc.Stream, pages: Pages, answered: Callable[[HttpConnection], object] = lambda _: None
    ) -> None:
        self.is_idle = True
        self._sending_since: float | None = None
        """Since when a part of an answer has been on its way; None if none is."""
        self._stream = stream
        self._pages = pages
        self._answered = answered
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._scope = trio.CancelScope()

    @property
    def is_stalled(self) -> bool:
        """Whether its peer does not read the answer that is under way."""
        return self._sending_since is not None and trio.current_time() - self._sending_since >= STALLED_AFTER

    def close(self) -> None:
        """Close it at once."""
        self._scope.cancel()

    async def run(self) -> None:
        """Answer requests until the peer leaves, or breaks the protocol."""
        try:
            with self._scope:
                while await self._exchange():
                    self._http.start_next_cycle()
                await self._linger()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError) as exc:
            log.debug("a connection of the metrics port ended: %s", exc)
        finally:
            await trio.aclose_forcefully(self._stream)

    # --- requests --------------------------------------------------------------------------------------

    async def _exchange(self) -> bool:
        """Answer one request. Returns whether another one may follow."""
        try:
            request = await self._request()
        except h11.RemoteProtocolError as exc:
            await self._refuse(HTTPStatus(exc.error_status_hint), str(exc))
            return False
        except trio.TooSlowError:
            if self._http.trailing_data[0]:
                await self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the request is not complete")
            return False
        if request is None:
            return False
        self.is_idle = False
        with trio.move_on_after(ANSWER_WITHIN):
            await self._answer(request)
        self.is_idle = True
        self._answered(self)
        return self._http.our_state is self._http.their_state is h11.DONE

    async def _request(self) -> h11.Request | None:
        """The next request; None when the peer has gone.

        Raises:
            h11.RemoteProtocolError: what came is not a request.
            trio.TooSlowError: it did not come in time.
        """
        has_begun = bool(self._http.trailing_data[0])
        with trio.fail_after(HEAD_WITHIN if has_begun else IDLE_WITHIN) as scope:
            while True:
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    return event
                if event is not h11.NEED_DATA:
                    return None
                data = await self._stream.receive_some(_CHUNK)
                if not has_begun:
                    has_begun, scope.deadline = True, trio.current_time() + HEAD_WITHIN
                self._http.receive_data(bytes(data))

    # --- answers ---------------------------------------------------------------------------------------

    async def _answer(self, request: h11.Request) -> None:
        page, method = self._page(request), request.method
        try:
            await self._send_page(page, is_head=method == b"HEAD")
        finally:
            if not isinstance(page.body, bytes):
                await _close(page.body)

    def _page(self, request: h11.Request) -> Page:
        """The page that a request asks for, or a page that says what is wrong with the request."""
        method = request.method.decode("ascii", "replace")
        if method not in _METHODS:
            allow = ", ".join(_METHODS)
            return text_page(HTTPStatus.METHOD_NOT_ALLOWED, f"only {allow} are allowed")._replace(allow=allow)
        if not isinstance(self._http.next_event(), h11.EndOfMessage):
            return text_page(HTTPStatus.BAD_REQUEST, "a request has no body here")
        try:
            path = urlsplit(request.target.decode("ascii", "replace")).path
        except ValueError:
            return text_page(HTTPStatus.BAD_REQUEST, "the target is not a path")
        make = self._pages.get(path)
        if make is None:
            return text_page(HTTPStatus.NOT_FOUND, f"there are only {' and '.join(self._pages)}")
        return make()

    async def _refuse(self, status: HTTPStatus, why: str) -> None:
        """Answer what is not a request, if an answer is still possible."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            with trio.move_on_after(PART_WITHIN):
                await self._send_page(text_page(status, why), is_head=False)

    async def _send_page(self, page: Page, *, is_head: bool) -> None:
        headers = [("Content-Type", page.content_type), ("Cache-Control", "no-store")]
        if isinstance(page.body, bytes):
            headers.append(("Content-Length", str(len(page.body))))
        if page.allow:
            headers.append(("Allow", page.allow))
        if self._http.their_state is not h11.DONE:
            headers.append(("Connection", "close"))  # a body would follow, or what came is not a request
        await self._send(h11.Response(status_code=page.status, headers=headers, reason=page.status.phrase))
        if not is_head:
            if isinstance(page.body, bytes):
                await self._send(h11.Data(data=page.body))
            else:
                async for part in page.body:
                    await self._send(h11.Data(data=part))
        await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        data = self._http.send(event)
        if data:
            self._sending_since = trio.current_time()
            try:
                with trio.fail_after(PART_WITHIN):
                    await self._stream.send_all(data)
            finally:
                self._sending_since = None

    async def _linger(self) -> None:
        """Close gracefully: after a reset, a peer that still writes would lose the answer."""
        if self._http.our_state not in (h11.MUST_CLOSE, h11.DONE, h11.CLOSED):
            return
        with trio.move_on_after(LINGER):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            left = MAX_LINGERING
            while left > 0 and (data := await self._stream.receive_some(_CHUNK)):
                left -= len(data)


async def _close(parts: AsyncIterator[bytes]) -> None:
    """End an answer that was not sent to its end."""
    async with aclosing(parts):  # type: ignore[type-var]  # they are async generators
        pass
