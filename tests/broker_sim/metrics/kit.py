"""A client for the port with metrics, which may be as rude as a test wants, and readers of its answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import trio
from prometheus_client.parser import text_string_to_metric_families

from rocketpy.remoting.network import Network
from rocketpy.wire.hosts import parse_address

__all__ = ["Answer", "Peer", "Scrape", "fetch", "samples", "scrape"]


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Peer:
    """One connection; what is read is kept until somebody takes it."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._read = bytearray()

    @classmethod
    async def to(cls, network: Network, address: str) -> Peer:
        return cls(await network.open_stream(*parse_address(address)))

    async def send(self, text: str | bytes) -> None:
        await self.stream.send_all(text.encode() if isinstance(text, str) else text)

    async def _until(self, end: bytes) -> bytes:
        while end not in self._read:
            await self._more()
        found, _, rest = bytes(self._read).partition(end)
        self._read[:] = rest
        return found

    async def _more(self) -> None:
        data = await self.stream.receive_some(4096)
        if not data:
            raise EOFError(bytes(self._read))
        self._read += data

    async def _exactly(self, count: int) -> bytes:
        while len(self._read) < count:
            await self._more()
        found = bytes(self._read[:count])
        del self._read[:count]
        return found

    async def answer(self, *, head: bool = False) -> Answer:
        """The next answer; of one to HEAD there is no body."""
        first, *lines = (await self._until(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = b""
        if head:
            pass
        elif "content-length" in headers:
            body = await self._exactly(int(headers["content-length"]))
        elif headers.get("transfer-encoding") == "chunked":
            while size := int(await self._until(b"\r\n"), 16):
                body += await self._exactly(size)
                assert await self._exactly(2) == b"\r\n"
            assert await self._exactly(2) == b"\r\n"
        else:
            assert headers["connection"] == "close"
            body = await self.rest()
        return Answer(int(first.split()[1]), headers, body)

    async def rest(self) -> bytes:
        """All that comes until the server closes."""
        try:
            while True:
                await self._more()
        except EOFError:
            found = bytes(self._read)
            self._read.clear()
            return found

    async def is_closed(self) -> bool:
        """Wait until the server closes, without another byte."""
        try:
            return await self.stream.receive_some(1) == b""
        except (OSError, trio.BrokenResourceError):
            return True


async def fetch(network: Network, address: str, target: str = "/metrics", method: str = "GET") -> Answer:
    peer = await Peer.to(network, address)
    try:
        await peer.send(f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return await peer.answer(head=method == "HEAD")
    finally:
        await peer.stream.aclose()


def samples(text: str) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Name of a sample -> its labels -> the value, by the parser of prometheus-client."""
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            of_name = found.setdefault(sample.name, {})
            labels = frozenset(sample.labels.items())
            assert labels not in of_name, f"{sample.name} {sample.labels} is there twice"
            of_name[labels] = sample.value
    return found


class Scrape:
    """The samples of one answer."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found = samples(text)

    def all(self, name: str, **labels: Any) -> Iterator[float]:
        wanted = {(key, str(value)) for key, value in labels.items()}
        return (value for of, value in self.found.get(name, {}).items() if wanted <= of)

    def one(self, name: str, **labels: Any) -> float:
        values = list(self.all(name, **labels))
        assert len(values) == 1, (name, labels, self.found.get(name))
        return values[0]


async def scrape(network: Network, address: str) -> Scrape:
    answer = await fetch(network, address)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return Scrape(answer.body.decode())
