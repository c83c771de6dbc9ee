"""The raw loops: a blocking socket and prebuilt frames, nothing decoded. The floor of what Python can do.

They also measure the servers: whatever a client costs, this is what is left for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from benchmarks.budget import Meter, Tickets
from benchmarks.frames import GET_MAX_OFFSET, Wire, batch_body, pull_frame, send_frame, split
from benchmarks.frames import frame as request
from benchmarks.latencies import spread
from benchmarks.records import decode
from benchmarks.task import BATCH, BATCHES_IN_FLIGHT, BODY, WINDOW, Outcome, Shape, Task
from benchmarks.trouble import BenchmarkError

READABLE_WITHIN = 10.0
_GOOD = b'{"code":0,'


def one_in_flight(task: Task) -> Outcome:
    """Send, wait for the answer, send."""
    frames = _frames(task)
    with Wire(task.broker) as wire:
        for frame in frames:
            wire.ask(frame)
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        times = []
        began = meter.start()
        while tickets.take():
            wire.socket.sendall(frames[tickets.given % len(frames)])
            count_good(wire.read())
            now = time.perf_counter()
            times.append(now - began)
            began = now
        meter.stop()
    return Outcome.rate(tickets.given, meter, **spread(times))


def window(task: Task) -> Outcome:
    """Keep so many sends in flight, over one connection."""
    return _windowed(task, _frames(task), WINDOW, 1)


def batches(task: Task) -> Outcome:
    """Batches of a hundred, a few in flight."""
    body = batch_body([BODY] * BATCH)
    frames = [send_frame(task.topic, queue, body, batch=True) for queue in range(task.queues)]
    return _windowed(task, frames, BATCHES_IN_FLIGHT, BATCH)


def _windowed(task: Task, frames: list[bytes], wanted: int, worth: int) -> Outcome:
    """Keep `wanted` frames in flight, each of them `worth` so many messages."""
    size = len(frames[0])
    ring = memoryview(b"".join(frames[number % len(frames)] for number in range(2 * wanted)))
    with Wire(task.broker) as wire:
        for frame in frames:
            wire.ask(frame)
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        meter.start()
        at = in_flight = 0
        while True:
            more = tickets.take_up_to((wanted - in_flight) * worth) // worth
            if more:
                wire.socket.sendall(ring[at * size : (at + more) * size])
                at = (at + more) % wanted
                in_flight += more
            if not in_flight:
                break
            in_flight -= count_good(wire.read())
        meter.stop()
    return Outcome.rate(tickets.given, meter)


def pull(task: Task) -> Outcome:
    """Pull the filled topic; messages are counted by the offsets, not decoded."""
    return _pull(task, lambda body: None)


def consume(task: Task) -> Outcome:
    """The same, with every message taken apart."""
    return _pull(task, decode)


def _pull(task: Task, use: Callable[[bytes], object]) -> Outcome:
    """One pull a queue in flight, over one connection."""
    offsets = dict.fromkeys(range(task.queues), 0)
    left = min(task.filled, task.budget.messages)
    group = f"bench_raw_{task.run}"
    with Wire(task.broker) as wire:
        meter = Meter(task.server_pid)
        meter.start()
        pulled, under_way = 0, 0
        for queue in offsets:
            wire.socket.sendall(pull_frame(group, task.filled_topic, queue, 0, opaque=queue))
            under_way += 1
        while under_way:
            for answer in wire.read():
                under_way -= 1
                queue, following, body = _pulled(answer)
                use(body)
                pulled += following - offsets[queue]
                found, offsets[queue] = following > offsets[queue], following
                if found and pulled < left:
                    wire.socket.sendall(pull_frame(group, task.filled_topic, queue, following, opaque=queue))
                    under_way += 1
        meter.stop()
    if pulled < left:
        raise BenchmarkError(f"{left} messages were expected in {task.filled_topic}, the raw loop found {pulled}")
    return Outcome.rate(pulled, meter)


def _pulled(answer: bytes) -> tuple[int, int, bytes]:
    """The queue that an answer is of, the offset to go on at, and the messages."""
    header, body = split(answer)
    return int(header["opaque"]), int(header["extFields"]["nextBeginOffset"]), body


def latency(task: Task) -> Outcome:
    """From the send to the answer of a pull that waits for it, on a queue that is idle: milliseconds."""
    times = []
    tickets = Tickets(task.budget)
    with Wire(task.broker) as sender, Wire(task.broker) as puller:
        frame = send_frame(task.topic, 0, BODY)
        offset = int(sender.ask(frame)[0]["extFields"]["queueOffset"]) + 1
        _wait_readable(sender, task, offset)
        while tickets.take():
            puller.socket.sendall(pull_frame(f"bench_raw_{task.run}", task.topic, 0, offset, wait_ms=15_000))
            time.sleep(0.005)  # the pull has to be there before the message is
            began = time.perf_counter()
            sender.socket.sendall(frame)
            count_good(puller.read())
            times.append(time.perf_counter() - began)
            count_good(sender.read())
            offset += 1
    return Outcome(median(times) * 1e3, len(times))


def _wait_readable(wire: Wire, task: Task, offset: int) -> None:
    """Until the queue ends at an offset: a broker may acknowledge a message before it stands in its queue.

    Raises:
        BenchmarkError: it never does.
    """
    question = request(GET_MAX_OFFSET, {"topic": task.topic, "queueId": 0})
    deadline = time.monotonic() + READABLE_WITHIN
    while int(wire.ask(question)[0]["extFields"]["offset"]) < offset:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"a message of {task.topic} cannot be read {READABLE_WITHIN:g} s after it was sent")
        time.sleep(0.001)


def _frames(task: Task) -> list[bytes]:
    return [send_frame(task.topic, queue, BODY) for queue in range(task.queues)]


def count_good(answers: list[bytes]) -> int:
    """How many answers there are, all of them good.

    Raises:
        BenchmarkError: one is not.
    """
    for answer in answers:
        if not answer.startswith(_GOOD, 4):
            header, _ = split(answer)
            raise BenchmarkError(f"the raw loop was refused: {header['code']} {header.get('remark')}")
    return len(answers)


SHAPES = (
    Shape("raw-one", "raw loop, one in flight", one_in_flight),
    Shape("raw-64", "raw loop, 64 in flight", window),
    Shape("raw-batch", "raw loop, batches of 100", batches),
    Shape("raw-pull", "raw loop, pull 1 KiB", pull),
    Shape("raw-consume", "raw loop, pull 1 KiB, fully decoded", consume),
    Shape("raw-latency", "raw loop, send to held pull", latency, unit="ms"),
)
