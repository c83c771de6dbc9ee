"""python -m tests.hostile.innocent BOARD ROLE ADDRESS: two connections that ask for little, ten times a second.

Beside a broker one sends and one pulls; beside a name server both ask for a route. How long the slowest answer took
stands on the board, and when the question was asked that has no answer yet.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from rocketpy.wire.codes import RequestCode, ResponseCode
from tests.hostile.board import Board
from tests.hostile.frames import request
from tests.hostile.peer import Answer, Closed, Peer

TOPIC, GROUP = "Innocent", "InnocentGroup"
EVERY = 0.1
WORDS = tuple(f"{word} {number}" for number in (0, 1) for word in ("worst", "asked", "answered", "failed"))
_GOOD = {ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED}


def send_request() -> bytes:
    """A message of 100 bytes."""
    names = {"a": GROUP, "b": TOPIC, "c": "TBW102", "i": "TAGS\x01a\x02"}
    numbers = {"d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "j": 0}
    return request(RequestCode.SEND_MESSAGE_V2, names | {k: str(v) for k, v in numbers.items()}, b"x" * 100)


def pull_request(offset: int) -> bytes:
    """A pull that is answered at once."""
    numbers = {
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subVersion": 0,
    }
    names = {"consumerGroup": GROUP, "topic": TOPIC, "subscription": "*"}
    return request(RequestCode.PULL_MESSAGE, names | {k: str(v) for k, v in numbers.items()})


def route_request() -> bytes:
    """The route of the topic that the broker has registered."""
    return request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})


class Innocent:
    """One of the two."""

    def __init__(self, board: Board, number: int, role: str, address: str) -> None:
        self.board, self.number, self.role, self.address = board, number, role, address
        self.offset = 0

    def run(self) -> None:
        while True:
            try:
                with Peer(self.address, timeout=60) as peer:
                    while True:
                        self.exchange(peer)
                        time.sleep(EVERY)
            except (Closed, OSError) as exc:
                self.fail(f"{type(exc).__name__} {exc}")
                time.sleep(EVERY)

    def exchange(self, peer: Peer) -> None:
        frame = self.frame()
        began = time.monotonic_ns()
        self.note("asked", began)
        answer = peer.ask(frame)
        self.note("asked", 0)
        self.note("worst", max(self.board[f"worst {self.number}"], time.monotonic_ns() - began))
        self.note("answered", self.board[f"answered {self.number}"] + 1)
        if answer.code not in _GOOD:
            self.fail(f"{answer.code} {answer.remark}")
        self.take(answer)

    def frame(self) -> bytes:
        if self.role == "namesrv":
            return route_request()
        return pull_request(self.offset) if self.number else send_request()

    def take(self, answer: Answer) -> None:
        self.offset = int(answer.fields.get("nextBeginOffset", self.offset))

    def note(self, word: str, value: int) -> None:
        self.board[f"{word} {self.number}"] = value

    def fail(self, text: str) -> None:
        self.note("failed", self.board[f"failed {self.number}"] + 1)
        self.board.line = f"{('pulls', 'routes')[self.role == 'namesrv'] if self.number else 'first'}: {text}"


def main() -> None:
    path, role, address = sys.argv[1:]
    board = Board(Path(path), WORDS)
    other = threading.Thread(target=Innocent(board, 1, role, address).run, daemon=True)
    other.start()
    Innocent(board, 0, role, address).run()


if __name__ == "__main__":
    main()
