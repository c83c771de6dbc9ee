"""The port with metrics: what it answers, and what peers cannot do to it. In memory, and in virtual time."""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.errors import StoreError, TransportError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.services import ticks
from rocketpy_broker_sim.config import MetricsConfig
from rocketpy_broker_sim.metrics import http, port
from rocketpy_broker_sim.metrics.metric import Family, Kind, Metric
from rocketpy_broker_sim.metrics.port import MetricsPort
from tests.broker_sim.metrics.kit import Peer, Scrape, fetch, scrape

GAUGE = Metric("a_gauge", "how much", ("topic",))
COUNTER = Metric("a_counter_total", "how many", kind=Kind.COUNTER)
GET = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


class Site:
    def __init__(self, config: MetricsConfig, most: int) -> None:
        self.network = MemoryNetwork()
        self.families: list[Family] = [GAUGE.of([(("orders",), 1.5)]), COUNTER.value(7)]
        self.problems: list[str] = []
        self.port = MetricsPort(config, {"broker": "b"}, lambda: iter(self.families), lambda: self.problems, most)

    async def peer(self) -> Peer:
        return await Peer.to(self.network, self.port.address)


@asynccontextmanager
async def serving(most: int = port.MOST_SAMPLES) -> AsyncIterator[Site]:
    site = Site(MetricsConfig(metrics_prom_exporter_port=0), most)
    async with trio.open_nursery() as nursery:
        await nursery.start(site.port.serve, site.network)
        yield site
        nursery.cancel_scope.cancel()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as made:
        yield made


# --- answers -------------------------------------------------------------------------------------------


async def test_metrics_are_shown_as_text_that_prometheus_reads(autojump_clock: MockClock, site: Site) -> None:
    found = await scrape(site.network, site.port.address)
    assert found.text == (
        "# HELP a_gauge how much\n"
        "# TYPE a_gauge gauge\n"
        'a_gauge{broker="b",topic="orders"} 1.5\n'
        "# HELP a_counter_total how many\n"
        "# TYPE a_counter_total counter\n"
        'a_counter_total{broker="b"} 7.0\n'
    )


async def test_health_is_ok_or_says_why_not(autojump_clock: MockClock, site: Site) -> None:
    answer = await fetch(site.network, site.port.address, "/healthz")
    assert (answer.status, answer.body) == (200, b"ok\n")
    site.problems = ["the disk is full", "two\nlines \x1b[31m"]
    answer = await fetch(site.network, site.port.address, "/healthz")
    assert (answer.status, answer.body) == (503, b"the disk is full\ntwo\\nlines \\x1b[31m\n")


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/healthz?verbose", 200),
        ("GET", "http://x/healthz", 200),
        ("GET", "http://[/healthz", 400),
        ("HEAD", "/healthz", 200),
        ("HEAD", "/metrics", 200),
        ("HEAD", "/nothing", 404),
        ("POST", "/metrics", 405),
        ("DELETE", "/nothing", 405),
        ("OPTIONS", "*", 405),
    ],
)
async def test_each_request_gets_its_status(
    autojump_clock: MockClock, site: Site, method: str, target: str, status: int
) -> None:
    answer = await fetch(site.network, site.port.address, target, method)
    assert answer.status == status
    assert answer.headers.get("allow") == ("GET, HEAD" if status == 405 else None)
    assert (await fetch(site.network, site.port.address, "/healthz")).status == 200


async def test_head_is_told_what_get_would_be(autojump_clock: MockClock, site: Site) -> None:
    peer = await site.peer()
    for target in ("/healthz", "/metrics"):
        await peer.send(f"HEAD {target} HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await peer.answer(head=True)
        await peer.send(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")
        whole = await peer.answer()
        assert (head.status, head.headers.keys()) == (200, whole.headers.keys())
        assert head.headers.get("content-length") == whole.headers.get("content-length")


async def test_a_connection_serves_many_requests_also_pipelined(autojump_clock: MockClock, site: Site) -> None:
    peer = await site.peer()
    await peer.send(GET * 5)
    assert [(await peer.answer()).status for _ in range(5)] == [200] * 5
    await peer.send(GET)
    assert (await peer.answer()).status == 200


async def test_http_1_0_gets_the_text_without_chunks_and_the_end(autojump_clock: MockClock, site: Site) -> None:
    peer = await site.peer()
    await peer.send("GET /metrics HTTP/1.0\r\n\r\n")
    answer = await peer.answer()
    assert answer.status == 200
    assert Scrape(answer.body.decode()).one("a_gauge", topic="orders") == 1.5


async def test_a_request_comes_byte_by_byte(autojump_clock: MockClock, site: Site) -> None:
    peer = await site.peer()
    for char in GET:
        await peer.send(char)
    assert (await peer.answer()).status == 200


@pytest.mark.slow
async def test_a_long_answer_comes_in_parts_and_other_tasks_run_meanwhile(
    autojump_clock: MockClock, site: Site
) -> None:
    rounds = 0

    async def count() -> None:
        nonlocal rounds
        while True:
            await trio.lowlevel.checkpoint()
            rounds += 1

    site.families = [GAUGE.of(((f"t{number}",), number) for number in range(20_000))]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        found = await scrape(site.network, site.port.address)
        nursery.cancel_scope.cancel()
    assert sum(found.all("a_gauge")) == sum(range(20_000))
    assert found.text.count("# TYPE a_gauge gauge") == 1
    assert rounds > 30


async def test_a_metric_with_too_many_samples_is_cut_and_says_so(autojump_clock: MockClock) -> None:
    async with serving(most=100) as site:
        site.families = [
            GAUGE.of(((f"t{number}",), number) for number in itertools.count()),
            Metric("just_fits", "", ("n",)).of(((str(number),), 1) for number in range(100)),
            COUNTER.value(7),
        ]
        found = await scrape(site.network, site.port.address)
    assert len(list(found.all("a_gauge"))) == len(list(found.all("just_fits"))) == 100
    assert found.one("a_counter_total") == 7
    assert list(found.found["rocketmq_metrics_incomplete"]) == [
        frozenset({("broker", "b"), ("metric", "a_gauge"), ("reason", "limit")})
    ]


async def test_threat_A5_labels_are_escaped_and_cut(autojump_clock: MockClock, site: Site) -> None:
    hostile = ['a"} 1\nforged 2', "back\\slash", "\x1b[2J\u2028", "x" * 5000]
    site.families = [GAUGE.of(((name,), number) for number, name in enumerate(hostile))]
    found = await scrape(site.network, site.port.address)
    assert list(found.found) == ["a_gauge"]
    labels = [dict(of)["topic"] for of in found.found["a_gauge"]]
    assert labels == ['a"} 1\\nforged 2', "back\\slash", "\\x1b[2J\\u2028", "x" * 256]


async def test_what_cannot_be_read_costs_no_other_metric(
    autojump_clock: MockClock, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    def failing() -> Iterator[tuple[tuple[str], float]]:
        yield ("first",), 1
        raise StoreError("the disk refused")

    site.families = [GAUGE.of(failing()), COUNTER.value(7)]
    found = await scrape(site.network, site.port.address)
    assert found.one("a_counter_total") == 7
    assert found.one("rocketmq_metrics_incomplete", metric="a_gauge", reason="error") == 1
    assert "a_gauge is incomplete: the disk refused" in caplog.text


async def test_a_bug_in_a_metric_ends_its_connection_alone(
    autojump_clock: MockClock, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Iterable[Family]:
        yield COUNTER.value(1)
        raise ZeroDivisionError

    site.families = broken()  # type: ignore[assignment]
    peer = await site.peer()
    await peer.send(GET)
    assert b"0\r\n\r\n" not in await peer.rest()  # the answer is not taken for a whole one
    await trio.testing.wait_all_tasks_blocked()
    assert "ZeroDivisionError" in caplog.text
    assert (await fetch(site.network, site.port.address, "/healthz")).status == 200


# --- hostile peers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"\x00\x01\x02\x03garbage\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n", 405),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 5000 + b"\r\n", 431),
    ],
)
async def test_what_is_no_request_is_refused_and_the_connection_ends(
    autojump_clock: MockClock, site: Site, text: bytes, status: int
) -> None:
    peer = await site.peer()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_what_is_taken, peer, text)
        with trio.fail_after(30):
            answer = await peer.answer()
            assert answer.status == status
            if status != 200:
                assert answer.headers["connection"] == "close"
                assert await peer.is_closed()
        nursery.cancel_scope.cancel()
    assert (await fetch(site.network, site.port.address, "/healthz")).status == 200


async def send_what_is_taken(peer: Peer, text: bytes) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await peer.send(text)


async def forgotten(site: Site) -> None:
    """Wait until the port has no connection any more."""
    async for _ in ticks(0.5):
        if not site.port.connections:
            return


async def test_who_sends_a_head_too_slowly_is_disconnected(autojump_clock: MockClock, site: Site) -> None:
    peer = await site.peer()
    began = trio.current_time()
    await peer.send("GET /metrics HTTP/1.1\r\n")

    async def drip() -> None:
        while True:
            await send_what_is_taken(peer, b"A: b\r\n")
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drip)
        assert (await peer.answer()).status == 408
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began == pytest.approx(http.HEAD_WITHIN, abs=0.5)


async def test_who_says_nothing_is_disconnected(autojump_clock: MockClock, site: Site) -> None:
    peer = await site.peer()
    began = trio.current_time()
    assert await peer.is_closed()
    assert trio.current_time() - began == pytest.approx(http.IDLE_WITHIN, abs=0.5)


async def test_who_does_not_read_the_answer_is_disconnected(autojump_clock: MockClock, site: Site) -> None:
    site.families = [GAUGE.of(((f"t{number}",), number) for number in range(40_000))]
    peer = await site.peer()
    await peer.send(GET)
    began = trio.current_time()
    await forgotten(site)
    assert trio.current_time() - began <= http.PART_WITHIN + 2


async def test_who_reads_slowly_is_disconnected_after_a_minute(autojump_clock: MockClock, site: Site) -> None:
    site.families = [GAUGE.of(((f"t{number}",), number) for number in range(40_000))]
    peer = await site.peer()
    await peer.send(GET)
    began = trio.current_time()

    async def read_slowly() -> None:
        for _ in range(1000):
            await peer.stream.receive_some(4096)
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_slowly)
        await forgotten(site)
        nursery.cancel_scope.cancel()
    assert http.PART_WITHIN < trio.current_time() - began <= http.ANSWER_WITHIN + 2


async def test_a_flood_of_connections_does_not_keep_prometheus_out(autojump_clock: MockClock, site: Site) -> None:
    flood = [await site.peer() for _ in range(5 * port.MOST_CONNECTIONS)]
    await trio.testing.wait_all_tasks_blocked()
    assert site.port.connections == port.MOST_CONNECTIONS
    assert (await fetch(site.network, site.port.address)).status == 200
    closed = 0
    for peer in flood:
        with trio.move_on_after(0.1):
            closed += await peer.is_closed()
    assert closed >= 4 * port.MOST_CONNECTIONS


async def test_a_connection_that_was_used_lately_is_not_the_one_that_makes_room(
    autojump_clock: MockClock, site: Site
) -> None:
    prometheus = await site.peer()
    others = [await site.peer() for _ in range(port.MOST_CONNECTIONS - 1)]
    await prometheus.send(GET)
    assert (await prometheus.answer()).status == 200
    await site.peer()
    assert await others[0].is_closed()
    await prometheus.send(GET)
    assert (await prometheus.answer()).status == 200


@pytest.mark.slow
async def test_answers_under_way_are_not_broken_off_for_others(
    autojump_clock: MockClock, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.families = [GAUGE.of([((f"t{number}",), number) for number in range(40_000)])]
    readers = [await site.peer() for _ in range(port.MOST_CONNECTIONS)]
    for peer in readers:
        await peer.send(GET)
    await trio.testing.wait_all_tasks_blocked()
    with caplog.at_level(logging.WARNING):
        assert await (await site.peer()).is_closed()
    assert "refused a connection: 16 answers are under way" in caplog.text
    assert (await readers[0].answer()).status == 200


async def test_peers_that_always_have_a_request_ready_do_not_keep_others_out(
    autojump_clock: MockClock, site: Site
) -> None:
    """Each has sent a hundred at once, and reads: none of them is ever idle, and none stalls."""
    greedy = [await site.peer() for _ in range(port.MOST_CONNECTIONS)]
    left: list[Peer] = []

    async def read(peer: Peer) -> None:
        await peer.send(GET * 100)
        with suppress(EOFError, OSError, trio.BrokenResourceError):
            for _ in range(100):
                assert (await peer.answer()).status == 200
            return
        left.append(peer)

    async with trio.open_nursery() as nursery:
        for peer in greedy:
            nursery.start_soon(read, peer)
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        assert (await fetch(site.network, site.port.address)).status == 200
        assert len(left) == 1
        nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_only_so_many_wait_for_the_end_of_an_answer(autojump_clock: MockClock, site: Site) -> None:
    site.families = [GAUGE.of([((f"t{number}",), number) for number in range(40_000)])]
    readers = [await site.peer() for _ in range(port.MOST_CONNECTIONS)]
    for peer in readers:
        await peer.send(GET)
    await trio.testing.wait_all_tasks_blocked()
    began = trio.current_time()
    waiting = [await site.peer() for _ in range(port.MOST_WAITING)]
    await trio.testing.wait_all_tasks_blocked()
    assert await (await site.peer()).is_closed()
    assert trio.current_time() == began
    assert (await readers[0].answer()).status == 200
    assert await readers[0].is_closed()
    for peer in waiting[1:]:
        assert await peer.is_closed()
    assert trio.current_time() - began == pytest.approx(port.ROOM_WITHIN)
    await waiting[0].send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await waiting[0].answer()).body == b"ok\n"


@pytest.mark.slow
async def test_peers_that_do_not_read_their_answers_do_not_keep_others_out(
    autojump_clock: MockClock, site: Site
) -> None:
    site.families = [GAUGE.of([((f"t{number}",), number) for number in range(40_000)])]
    stalled = [await site.peer() for _ in range(port.MOST_CONNECTIONS)]
    for peer in stalled:
        await peer.send(GET)
    await trio.sleep(http.STALLED_AFTER + 0.5)
    with trio.fail_after(1):
        health = await site.peer()
        await health.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await health.answer()).body == b"ok\n"
    assert site.port.connections == port.MOST_CONNECTIONS


async def test_a_peer_that_leaves_amid_an_answer_is_forgotten(autojump_clock: MockClock, site: Site) -> None:
    site.families = [GAUGE.of(((f"t{number}",), number) for number in range(40_000))]
    peer = await site.peer()
    await peer.send(GET)
    await peer.stream.receive_some(100)
    await peer.stream.aclose()
    began = trio.current_time()
    await forgotten(site)
    assert trio.current_time() - began < 2


async def test_a_port_that_is_taken_is_an_error_that_says_so(autojump_clock: MockClock, site: Site) -> None:
    _, _, taken = site.port.address.rpartition(":")
    other = MetricsPort(MetricsConfig(metrics_prom_exporter_port=int(taken)), {}, lambda: (), lambda: ())
    with pytest.raises(TransportError, match=f"no metrics: cannot listen on 127.0.0.1:{taken}.*choose another port"):
        await other.serve(site.network)
