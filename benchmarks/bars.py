"""The bars: what each figure has to reach, as a ratio to another figure of the same run if machines differ.

Declarations only; `verdicts` compares them with a run. The table `work` uses Apache's broker, `servers` compares our
servers with Apache's, and `itself` needs only our servers. Peers are other clients in the same run.
"""

from __future__ import annotations

from dataclasses import dataclass

APACHE = "apache"
OURS = "ours"
ALONE = "alone"
"""Stands for the name of the servers if a figure needs none."""
PEERS = ("javascript", "java")
"""The kinds of servers, in the order of the columns."""
SURFACE_ROUNDS = 5
CONSUMER_ROUNDS = 5
_PARTS = {"value": "", "cpu": "s", "p99_us": "µs"}
NAMES = {APACHE: "Apache RocketMQ", "javascript": "JavaScript", "java": "Java"}
"""Their names for readers."""


@dataclass(frozen=True)
class Figure:
    """Where to find a figure of the run.

    Attributes:
        row: Its name in the plan.
        servers: The servers that it uses.
        part: "value", "cpu" or "server_cpu" of the samples, or the name of a note.
        unit: The unit of the part; for "value", that of the row.
    """

    row: str
    servers: str
    part: str = "value"
    unit: str = ""


@dataclass(frozen=True)
class Bar:
    """The bar of a figure.

    Attributes:
        table: "work", "servers" or "itself".
        title: The title of its line.
        figure: Our figure.
        limit: The bar.
        at_least: Whether more is better; otherwise the limit is the most that is allowed.
        over: What the figure is divided by before it is compared; None compares the figure itself.
        shape: The name of the same work for peers, whose row is `<peer>-<shape>`. Empty if no peer does it.
        note: A note of the figure that is shown beside the verdict.
        enough: A figure that is at least as good as this reaches the bar, whatever the ratio is.
        rounds: The number of rounds that it requires; with fewer, the verdict is a first look.
    """

    table: str
    title: str
    figure: Figure
    limit: float
    at_least: bool = True
    over: Figure | None = None
    shape: str = ""
    note: str = ""
    enough: float | None = None
    rounds: int = 0

    def peer(self, name: str) -> Figure | None:
        """Return the same figure of a peer."""
        ours = self.figure
        return Figure(f"{name}-{self.shape}", ours.servers, ours.part, ours.unit) if self.shape else None


def _work(
    title: str, row: str, limit: float, over: str, shape: str = "", *, at_least: bool = True, note: str = ""
) -> Bar:
    return Bar("work", title, Figure(row, APACHE), limit, at_least, Figure(over, APACHE), shape, note)


def _surface(title: str, row: str, limit: float, over: str, shape: str, part: str = "value") -> Bar:
    """Return the bar of a way to send, beside the raw loop or the best peer. For CPU and latency, less is better."""
    ours, theirs = (Figure(name, APACHE, part, _PARTS[part]) for name in (row, over))
    return Bar("work", title, ours, limit, part == "value", theirs, shape, rounds=SURFACE_ROUNDS)


def _servers(title: str, row: str, limit: float, *, at_least: bool = False, part: str = "value", unit: str = "") -> Bar:
    ours, theirs = (Figure(row, servers, part, unit) for servers in (OURS, APACHE))
    return Bar("servers", title, ours, limit, at_least, theirs)


def _itself(title: str, row: str, limit: float, *, at_least: bool = False, over: str = "") -> Bar:
    return Bar("itself", title, Figure(row, ALONE), limit, at_least, Figure(over, ALONE) if over else None)


SURFACE_BARS = (
    _surface("send, one in flight: trio", "trio-one", 0.60, "raw-one", "one"),
    _surface("send, one in flight: blocking", "blocking-one", 0.70, "raw-one", "one"),
    _surface("send, one in flight: asyncio", "aio-one", 0.58, "raw-one", "one"),
    _surface("64 in flight: trio, to JavaScript's", "trio-64", 1.3, "javascript-64", "64"),
    _surface("64 in flight: trio, client CPU", "trio-64", 1.1, "javascript-64", "64", "cpu"),
    _surface("64 in flight: asyncio, to JavaScript's", "aio-64", 1.4, "javascript-64", "64"),
    _surface("64 in flight: asyncio, client CPU", "aio-64", 0.8, "javascript-64", "64", "cpu"),
    _surface("64 in flight: send_soon, to JavaScript's", "send-soon-64", 1.3, "javascript-64", "64"),
    _surface("64 in flight: send_soon, client CPU", "send-soon-64", 1.0, "javascript-64", "64", "cpu"),
    _surface("64 threads, to Java's", "threads-64", 1.2, "java-threads-64", "threads-64"),
    _surface("64 threads, p99", "threads-64", 1.0, "java-threads-64", "threads-64", "p99_us"),
    _surface("8 threads, to Java's", "threads-8", 1.0, "java-threads-8", "threads-8"),
    _surface("8 threads, p99", "threads-8", 1.0, "java-threads-8", "threads-8", "p99_us"),
)
"""The bars of sending from trio, from threads and from asyncio."""


def _transactions(title: str, row: str) -> tuple[Bar, Bar]:
    """Return the bars of our client beside Java's on Apache's broker, and of our broker beside Apache's."""
    work = _surface(f"transactions, {title}, to Java's", row, 0.8, f"java-{row}", row)
    return work, _servers(f"transactions, {title}, our client", row, 0.4, at_least=True)


def _late(title: str, row: str, part: str, limit: float, *, at_least: bool = False) -> Bar:
    """Return the bars of how late our broker delivers timed and delayed messages."""
    return Bar("servers", title, Figure(row, OURS, part, "ms"), limit, at_least)


def _closing(what: str, row: str) -> tuple[Bar, Bar]:
    """Return the bars of messages that are in flight when their producer closes."""
    lost, unanswered = (Figure(row, APACHE, f"{part}_messages", "messages") for part in ("lost", "unanswered"))
    return (
        Bar("work", f"closing, {what}: acknowledged and lost", lost, 0.0, at_least=False),
        Bar("work", f"closing, {what}: without an answer", unanswered, 0.0, at_least=False),
    )


PRODUCER_BARS = (
    _surface("linger, 4,096 outstanding, to Java's autoBatch", "linger-soon", 0.6, "java-auto-batch", "auto-batch"),
    _surface("the same on trio, 4,096 tasks", "linger-trio", 0.6, "java-auto-batch", "auto-batch"),
    _surface("the same on asyncio, 4,096 tasks", "linger-aio", 0.6, "java-auto-batch", "auto-batch"),
    _surface("64 threads with linger, to 64 without", "linger-threads-64", 1.0, "threads-64", "auto-threads-64"),
    *_transactions("one in flight", "transact-one"),
    *_transactions("64 in flight", "transact-64"),
    _surface("traced, 64 in flight, to the same without", "traced-64", 0.85, "trio-64", ""),
    _surface("traced, 64 threads, to the same without", "traced-threads-64", 0.85, "threads-64", ""),
    *_closing("trio", "closing"),
    *_closing("send_soon", "closing-soon"),
    Bar("work", "memory after 1,000,000 sends", Figure("memory-growth", OURS), 1024.0, at_least=False),
    _late("timers of 1 s: the first", "timer-late", "first_ms", 0.0, at_least=True),
    _late("timers of 1 s: the last", "timer-late", "last_ms", 200.0),
    _late("delay level of 1 s: the first", "level-late", "first_ms", 0.0, at_least=True),
    _late("delay level of 1 s: the last", "level-late", "last_ms", 200.0),
    _late("100,000 timers due at once: the first", "timers-at-once", "first_ms", 0.0, at_least=True),
    _late("100,000 timers due at once: the last", "timers-at-once", "value", 3_000.0),
)
"""The bars of producers besides single sends: linger, transactions, traces, closing, and timed messages."""


def _consumer(title: str, row: str, limit: float, over: str, shape: str = "") -> Bar:
    """Return the bar of a way to consume waiting messages, compared with another way in the same run."""
    return Bar(
        "work", title, Figure(row, APACHE), limit, over=Figure(over, APACHE), shape=shape, rounds=CONSUMER_ROUNDS
    )


def _on_an_ordinary_core(table: str, title: str, row: str, servers: str, limit: float) -> Bar:
    """Return the bar of a CPU time, divided by how much slower than an ordinary core this core was at that moment."""
    return Bar(
        table, title, Figure(row, servers), limit, at_least=False, over=Figure(row, servers, "slower_times", "times")
    )


FILTER_BARS = (
    _on_an_ordinary_core("store", "passed over by its tag, µs of an ordinary core", "store-filter-tag", ALONE, 0.2),
    _on_an_ordinary_core("store", "passed over by SQL92, µs of one", "store-filter-sql", ALONE, 6.0),
    _on_an_ordinary_core("store", "passed over by its bit map, µs of one", "store-filter-bits", ALONE, 1.0),
)
"""The bars of messages that a reader does not want."""
CONSUMER_BARS = (
    _consumer("in order, plain, to the same without order", "consume-orderly", 0.9, "consume"),
    _consumer("in order, async, to the same without order", "consume-orderly-async", 0.9, "consume-async"),
    _consumer("in order, plain, to Java's in order", "consume-orderly", 1.0, "java-orderly"),
    _consumer("in order, async, to Java's in order", "consume-orderly-async", 1.0, "java-orderly", "orderly"),
    _consumer("lite pull, to Java's", "lite-pull", 1.0, "java-lite", "lite"),
    _consumer("lite pull, to Java's push consumer", "lite-pull", 1.0, "java-new-consume"),
    Bar("work", "8th of 8 joins, until 64 queues have one owner", Figure("settle", APACHE), 5_000.0, at_least=False),
    Bar("work", "held of a queue while a listener blocks", Figure("blocked", APACHE), 1_032.0, at_least=False),
    _on_an_ordinary_core("itself", "10,000 held pulls: % of an ordinary core", "held-pulls", OURS, 5.0),
    *FILTER_BARS,
)
"""The bars of consuming what waits in four queues, and of the load that consumers put on a broker."""

BARS = (
    *SURFACE_BARS,
    *PRODUCER_BARS,
    *CONSUMER_BARS,
    _work("send, 64 in flight: trio, to the raw loop", "trio-64", 0.50, "raw-64", "64"),
    Bar(
        "work",
        "send, 64 in flight: client CPU per 100,000",
        Figure("trio-64", APACHE, "cpu", "s"),
        2.0,
        at_least=False,
        shape="64",
    ),
    _work("one-way, to our own send at 64", "oneway", 1.3, "trio-64", note="arrived_percent"),
    _work("batches of 100", "batch", 0.50, "raw-batch", "batch"),
    _work("push consume 1 KiB, plain listener", "consume", 0.25, "raw-consume", "consume"),
    _work("push consume 1 KiB, async listener", "consume-async", 0.25, "raw-consume", "consume"),
    _work("send to listener, idle queue, to Java's", "latency", 1.2, "java-latency", "latency", at_least=False),
    _work("start to first ack, trio, to JavaScript's", "start-trio", 2.0, "javascript-start", "start", at_least=False),
    _work(
        "start to first ack, blocking, to JavaScript's",
        "start-blocking",
        2.0,
        "javascript-start",
        "start",
        at_least=False,
    ),
    _servers("name server + broker, cold, to first ack", "cold", 0.1),
    Bar("servers", "idle broker: memory", Figure("idle-rss", OURS), 80.0, at_least=False),
    Bar("servers", "idle broker: share of a core", Figure("idle-cpu", OURS), 1.0, at_least=False),
    Bar("servers", "SIGTERM to gone", Figure("stop", OURS), 1_000.0, at_least=False),
    _servers("single sends, window 64, one connection", "raw-64", 0.7, at_least=True),
    _servers("one send in flight, p50", "raw-one", 1.0, part="p50_us", unit="µs"),
    _servers("batches of 100", "raw-batch", 0.5, at_least=True),
    _servers("pulled messages, 1 KiB", "raw-pull", 0.4, at_least=True),
    _itself("decode of stored messages", "decode", 300_000.0, at_least=True),
    _itself("decode of stored messages, with properties", "decode-all", 300_000.0, at_least=True),
    _itself("import rocketpy", "import", 1.25, over="import-floor"),
    _itself("import rocketpy and its Producer", "import-trio", 1.25, over="import-floor"),
    _itself("LocalCluster to first acknowledged send", "cluster-start", 300.0),
    Bar("itself", "rocketpy --help, median of 10", Figure("cli-help", OURS), 150.0, at_least=False),
    Bar("itself", "completion, median of 10", Figure("cli-completion", OURS), 150.0, at_least=False),
    Bar("itself", "rocketpy topic list, median of 10", Figure("cli-topic-list", OURS), 400.0, at_least=False),
    Bar("itself", "rocketpy tail to a pipe, messages of 1 KiB a second", Figure("tail", OURS), 20_000.0),
    Bar("itself", "rocketpy tail --json to a pipe", Figure("tail-json", OURS), 20_000.0),
    Bar("itself", "idle close", Figure("idle-close", OURS), 200.0, at_least=False),
)
