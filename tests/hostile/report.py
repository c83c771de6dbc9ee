"""The page of hostile peers: a table of request codes with the worst that attacks did.

`./dev hostile --page docs/reference/hostile-peers.md` writes the committed one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.calls import CALLS, seconds
from tests.hostile.codes import Result
from tests.hostile.known import KNOWN
from tests.hostile.measure import (
    AFTERWARDS,
    AT_LIMIT,
    BETWEEN,
    CALL,
    REPORTED,
    SLACK,
    TIMES,
    TURN,
    WAIT,
    Reading,
    worst,
)
from tests.hostile.routed import UNKNOWN_TO_CLIENTS, Routed, routed

MIB = 1024 * 1024
_STRICTER = Path(__file__).with_name("clients.md")
_ANY_OTHER = "SEND_MESSAGE (10), like any other that clients do not know"
_ROLES = {"broker": "the broker", "namesrv": "the name server", "client": "clients"}


class Report:
    """What has been found so far."""

    def __init__(self) -> None:
        self.results: dict[str, Result] = {}
        self.named: dict[str, Reading] = {}

    def note(self, result: Result) -> None:
        self.results[str(result.routed)] = result

    def note_named(self, reading: Reading) -> None:
        """Of what is done twice, the worst counts."""
        known = self.named.get(reading.name)
        self.named[reading.name] = reading if known is None else worst([known, reading])

    @property
    def is_whole(self) -> bool:
        return {str(each) for each in routed()} <= set(self.results)

    def write(self, path: Path) -> None:
        """Write the page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.page(), "utf-8")

    def page(self) -> str:
        """The page as it stands in the documentation."""
        parts = [_INTRODUCTION + self._calls(), *(self._codes(role) for role in _ROLES)]
        if self.named:
            parts.append(self._attacks())
        return "\n".join([*parts, *open_ends()])

    def _calls(self) -> str:
        return "".join(f"| {call.what} | {call.over} | {ms(seconds(call))} |\n" for call in CALLS.values())

    def _codes(self, role: str) -> str:
        lines = [
            f"## Requests to {_ROLES[role]}\n",
            "| request | attacks | longest turn, ms | with | collection, ms | worst wait, ms | memory, MiB | with |",
            "|---|---:|---:|---|---:|---:|---:|---|",
        ]
        for each in routed():
            result = self.results.get(str(each))
            if each.role == role and result is not None:
                lines.append(code_row(each, result.readings))
        if role == "client":
            lines += ["", _STRICTER.read_text("utf-8").rstrip()]
        return "\n".join([*lines, ""])

    def _attacks(self) -> str:
        lines = [
            "## Floods, crowds and peers that do not read\n",
            "| attack | longest turn, ms | collection, ms | worst wait, ms | memory, MiB | left, MiB |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        for name in sorted(self.named):
            reading = self.named[name]
            memory = [f"{size / MIB:.0f}" for size in (reading.grown, reading.left)]
            cells = [name, ms(reading.turn), ms(reading.collecting), wait(reading.wait), *memory]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join([*lines, ""])


class Given:
    """A plugin of pytest that carries a report to the tests of a session."""

    __name__ = "given-report"

    def __init__(self, report: Report) -> None:
        self.report = report

    @classmethod
    def of(cls, config: pytest.Config) -> Report | None:
        """The report that a session was given."""
        plugin = config.pluginmanager.get_plugin(cls.__dict__["__name__"])
        return plugin.report if isinstance(plugin, cls) else None


def open_ends() -> list[str]:
    """What the page says of attacks that take longer or more than is demanded; nothing when there are none."""
    if not KNOWN:
        return []
    lines = [
        "## What does not hold yet\n",
        "These attacks exceed the limits for a turn or for memory. The server keeps running, and serves other peers.\n",
        "| request | attacks |",
        "|---|---|",
    ]
    for each, names in sorted(KNOWN.items()):
        lines.append(f"| {each.partition('-')[2]} | {', '.join(sorted(names))} |")
    return ["\n".join([*lines, ""])]


def code_row(each: Routed, readings: list[Reading]) -> str:
    longest = worst(readings)
    largest = max(readings, key=lambda reading: reading.grown)
    cells = [
        _ANY_OTHER if each == ("client", UNKNOWN_TO_CLIENTS) else f"{each.code.name} ({int(each.code)})",
        str(sum(reading.name not in (BETWEEN, AFTERWARDS) for reading in readings)),
        ms(longest.turn),
        longest.name,
        ms(longest.collecting),
        wait(longest.wait),
        f"{largest.grown / MIB:.0f}",
        largest.name,
    ]
    return f"| {' | '.join(cells)} |"


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}"


def wait(seconds: float) -> str:
    text = f"{seconds * 1e3:.0f}"
    return f"**{text}**" if seconds > REPORTED else text


_INTRODUCTION = f"""# Hostile peers

Whatever a peer sends, the name server and the broker keep serving all other peers. Whatever a broker sends to a client,
the rest of that client keeps working. `tests/hostile` tests this with a server process, an attacker, and an innocent
pair of connections. The pair sends and pulls ten times a second (from the name server, it requests routes). The
attacker sends every kind of request, at the limits of what the server accepts and just above them: the largest body,
the largest number of members and names, the deepest nesting, the longest texts, an empty body, and every number at its
limits.

Each attack must meet these requirements:

* No turn of the server's loop takes more than {TURN * 1e3:.0f} ms of processor time. If the machine is slow at that
  moment, the time is divided by a factor that is measured with a fixed piece of work. A turn may take
  {CALL * 1e3:.0f} ms if a single call into C processes a body at its limit ({AT_LIMIT // MIB} MiB or more, as
  received or decompressed), because such a call cannot be divided; the table below lists these calls. Young garbage
  collections count as part of the turn.
* A full garbage collection visits all objects that are not frozen. It cannot be divided either, and may happen in any
  turn. It is not counted as part of the turn, and takes no more than {CALL * 1e3:.0f} ms; the tables show the
  longest one of each row.
* The pair gets its answers within {REPORTED * 1e3:.0f} ms, in the best of three attacks. A longer wait is printed in
  bold. A test fails only above {WAIT * 1e3:.0f} ms, because other programs run on the machine too.
* While the server handles a request, its own memory grows by no more than {TIMES} times the size of the request and
  {SLACK // MIB} MiB. Afterwards it returns to within {SLACK // MIB} MiB of its earlier size.
* Between attacks, no turn takes more than {2 * TURN * 1e3:.0f} ms, because attacks may leave work for later.
* The server keeps running, and accepts a small request of the same kind afterwards.

Clients are attacked through their broker: a proxy passes the frames of a real broker on, and inserts requests of the
attacker between them. The client has consumers of every kind, a producer and a transaction producer. In the same loop,
an innocent producer sends to an innocent consumer ten times a second, each through a client of its own. The
requirements are the same as for servers. In addition, afterwards every consumer must have its queues, and must get and
commit every message that is sent from then on, and checks must reach the checker.

Each limit that is declared in the code is tested twice: a request at the limit must be accepted, and one just above it
must be refused with the expected code. Limits of tables are reached by many requests together; for this, a few of them
are set to lower values. A limit without an attack fails a test.

For floods and crowds, memory is measured differently. Tables that a crowd has filled keep their size, and so do gaps
between small objects, which Python keeps for later. Therefore the same crowd comes and goes a second time, and must
not leave more than {SLACK // MIB} MiB behind then. The column `left` shows the larger of the two.

Ports with metrics are attacked too. Meanwhile a scraper that asks once, and reads, gets a whole page within 3 seconds;
the port has no more connections than its bound, and none of them is left afterwards. Such attacks may take
{SLACK // MIB} MiB of memory all together.

An attack is repeated if its only failure is how long the pair waited. All other failures count at once, with three
exceptions. A turn that took less than twice its limit is measured once more, on a new server. With a crowd, such a
turn, and memory below twice its limit that it left, are measured up to twice more, and have to pass once. A turn during
a crowd that took even longer is measured twice more, and has to pass both times.

`./dev hostile --page docs/reference/hostile-peers.md` writes this page, with the figures of the machine that it runs
on. `./dev test --all` measures your machine too, and writes the tables of requests to `docs/_build/hostile-peers.md`.

In the tables of requests, `attacks` is the number of kinds of attack with a request. The two columns `with` name the
attack with the longest turn, and the one with the most memory. The longest full collection and the worst wait of the
pair are those of any attack with the request.

| call into C | over | at its limit, ms |
|---|---|---:|
"""
