"""A client process that is attacked through a gate, and what it must have kept afterwards."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from pathlib import Path

from rocketpy.wire.bodies.running import ConsumerRunningInfo
from rocketpy.wire.codes import RequestCode, ResponseCode
from tests.hostile import innocent, meter, subject
from tests.hostile.attacks_on_clients import check, half, of_group
from tests.hostile.board import Board
from tests.hostile.frames import request
from tests.hostile.gate import Gate
from tests.hostile.measured import Measured
from tests.hostile.peer import Closed, Peer, ask_once, wait_until
from tests.hostile.routed import UNKNOWN_TO_CLIENTS
from tests.hostile.samples import DRIVEN, group_of
from tests.hostile.world import World

_MESSAGES = 8
"""How many messages are sent to check that all consumers still get everything."""
_WITHIN = 20.0
_COMMITTING = ("concurrent", "orderly", "lite")
_SHARING = ("concurrent", "orderly", "broadcast", "lite")


def client_of(world: World) -> ServedClient:
    """The client beside two servers. If it is not running, it is started, beside servers that were not attacked."""
    found = world.beside.get("client")
    if found is None:
        found = world.beside["client"] = ServedClient(world, world.home / "client")
    assert isinstance(found, ServedClient)
    if not found.lives:
        if not world.is_fresh:
            world.restart()
        found.start()
    return found


def unknown() -> bytes:
    """A request that every client refuses in the same way."""
    return request(UNKNOWN_TO_CLIENTS)


class ServedClient(Measured):
    """The client process `subject`; its `address` is the entrance for attackers.

    Args:
        world: Its servers.
        home: Its directory.
    """

    def __init__(self, world: World, home: Path) -> None:
        super().__init__("client", home)
        # As in the server commands: large blocks are returned to the system at once.
        self._environment["MALLOC_MMAP_THRESHOLD_"] = "131072"
        self._world = world
        self._sent = self._checks = 0

    def start(self) -> None:
        """Start it with a gate of its own; returns once all consumers are running."""
        number = self._begin()
        broker = self._world.broker.address
        self._gate = Gate(broker)
        self.address = self._gate.entrance
        boards = [self.home / f"{name}{number}" for name in ("meter", "pair", "seen")]
        self.meter, self.pair, self.seen = (
            Board(path, words) for path, words in zip(boards, (meter.WORDS, innocent.WORDS, subject.WORDS), strict=True)
        )
        paths = list(map(str, boards))
        where = [self._world.namesrv.address, broker, self._gate.address]
        self._sent = 0
        self.process = self._run(
            ["tests.hostile.launch", paths[0], "tests.hostile.subject", *paths[1:], self._prefix, *where]
        )
        begun = wait_until(lambda: (self.seen["started"] and self.pair["answered 1"]) or not self.lives, 30)
        assert begun, self.said()
        assert self.lives, self.said()

    @property
    def _prefix(self) -> str:
        return f"kept-{self.starts}-"

    def kill(self) -> None:
        super().kill()
        if self.starts:
            self._gate.close()

    def restart(self) -> None:
        """Restart it. It closes in order if it can, or its queues would stay locked at the broker for a minute."""
        self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.kill()
        self.start()

    def answers(self) -> bool:
        """Whether it answers its broker, and has processed what it was sent before.

        A reset without fields is refused only once earlier resets have been read, which happens in the background. The
        checker is called by one thread, for one check after the other.
        """

        def has_read() -> bool:
            answer = ask_once(self.address, request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET), timeout=10)
            return answer.code == ResponseCode.SYSTEM_ERROR

        try:
            return wait_until(has_read, 10) and self._asks_checker()
        except (Closed, OSError):
            return False

    def _asks_checker(self) -> bool:
        """Whether a check reaches the checker. It is dropped while too many wait, and a broker asks again."""
        before = self.seen["checked"]

        def is_checked() -> bool:
            self._checks += 1
            with Peer(self.address, timeout=10) as peer:
                peer.send(check(half(1_000_000 + self._checks, body=subject.CHECKED)))
                peer.ask(unknown())
            return wait_until(lambda: self.seen["checked"] > before, 0.2)

        return wait_until(is_checked, 10)

    # --- what it must have kept ---

    def lost(self) -> list[str]:
        """What it has lost although it should have kept it: queues, later messages, commits."""
        with Peer(self._world.broker.address) as peer:
            for number in range(_MESSAGES):
                answer = peer.ask(self._message(number % subject.QUEUES))
                assert answer.code == ResponseCode.SUCCESS, answer
            faults = self._lost_messages()
            faults += [fault for kind in _SHARING for fault in self._lost_queues(kind)]
            return faults or [fault for kind in _COMMITTING for fault in self._lost_commits(peer, kind)]

    def _message(self, queue_id: int) -> bytes:
        self._sent += 1
        fields = {"a": "sender", "b": DRIVEN, "c": "TBW102", "i": ""} | dict.fromkeys("dfghj", "0")
        body = f"{self._prefix}{self._sent}".encode()
        return request(RequestCode.SEND_MESSAGE_V2, fields | {"e": str(queue_id)}, body)

    def _lost_messages(self) -> list[str]:
        wait_until(lambda: all(self.seen[kind] == self._sent for kind in subject.KINDS), _WITHIN)
        counts = {kind: self.seen[kind] for kind in subject.KINDS}
        return [f"{kind} got {count} of {self._sent} messages" for kind, count in counts.items() if count != self._sent]

    def _lost_queues(self, kind: str) -> list[str]:
        code = RequestCode.GET_CONSUMER_RUNNING_INFO
        answer = ask_once(self.address, request(code, of_group(code, kind)), timeout=10)
        table = ConsumerRunningInfo.decode(answer.body).mq_table
        held = [queue for queue, state in table.items() if queue.topic == DRIVEN and not state.droped]
        return [] if len(held) == subject.QUEUES else [f"{kind} has {len(held)} of {subject.QUEUES} queues"]

    def _lost_commits(self, peer: Peer, kind: str) -> list[str]:
        """The queues that are not committed exactly up to their ends."""

        def number(code: RequestCode, queue_id: int) -> int:
            fields = {"topic": DRIVEN, "queueId": str(queue_id), "consumerGroup": group_of(kind)}
            return int(peer.ask(request(code, fields)).fields.get("offset", -1))

        queues = range(subject.QUEUES)
        ends = [number(RequestCode.GET_MAX_OFFSET, each) for each in queues]
        committed: list[int] = []

        def is_committed() -> bool:
            committed[:] = [number(RequestCode.QUERY_CONSUMER_OFFSET, each) for each in queues]
            return committed == ends

        if wait_until(is_committed, _WITHIN):
            return []
        return [f"{kind} has committed {json.dumps(committed)}, its queues end at {json.dumps(ends)}"]
