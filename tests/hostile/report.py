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
        "These attacks take a longer turn or more memory than is demanded. The server lives, and answers the others.\n",
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
the rest of that client keeps working. `tests/hostile` tests this with a server process, an innocent pair of connections
and an attacker. The pair sends and pulls ten times a second (at the name server it asks for routes). The attacker sends
every request there is, at the limits of what is accepted and just beyond: the largest body, the most members and names,
the deepest nesting, the longest texts, nothing at all, and every number at its limits.

What is demanded of each attack:

* No turn of the server's loop takes more than {TURN * 1e3:.0f} ms of processor time. (On a machine that is slow at
  that moment, seconds count for less: a small piece of work that stays the same tells by how much.) A turn may take
  {CALL * 1e3:.0f} ms where one call into C goes over a body at its limit ({AT_LIMIT // MIB} MiB or more, as it came or
  inflated), because such a call cannot be divided; the table below lists these calls. Collections of young garbage are
  part of the turn.
* A full collection of garbage goes over all objects that were not set aside. It cannot be divided either, and it is
  chance which turn it falls into. It comes on top of that turn and takes no more than {CALL * 1e3:.0f} ms; the tables
  have the longest of each row.
* The pair is answered within {REPORTED * 1e3:.0f} ms, in the best of three attacks. A longer wait is printed in bold.
  A test fails only above {WAIT * 1e3:.0f} ms, because the machine that runs it does other things too.
* The server's own memory grows by no more than {TIMES} times the size of the request and {SLACK // MIB} MiB while it is
  served, and afterwards comes back to within {SLACK // MIB} MiB of what it was.
* Between attacks no turn takes more than {2 * TURN * 1e3:.0f} ms: what they leave for later counts.
* The server lives, and a small request of the same kind works afterwards.

A client is attacked by its broker: an attacker inserts requests between the frames of a real broker, through a proxy
that passes everything else on. The client has consumers of every kind, a producer and a transaction producer. In the
same loop, an innocent producer sends to an innocent consumer through clients of their own, ten times a second. The
demands are the same as on servers. Afterwards every consumer must also have its queues, and get and commit every
message that is sent from then on, and checks must reach the checker.

Each bound that is declared in the code is tried twice: a request at the bound is accepted, and one just beyond it is
refused with the code that is expected. Bounds of tables are reached by many requests together, and a few of them are
lowered in the settings for that. A test fails for a bound that nothing tries.

Floods and crowds have figures of their own for memory. Tables that a crowd has filled stay. So do the gaps between
small objects, which Python keeps for later: when the same crowd comes and goes a second time, it leaves no more than
{SLACK // MIB} MiB behind. The column `left` has the worse of the two.

An attack is made again when all that was wrong is how long the pair waited. Everything else counts the first time; only
a turn that took less than twice its bound, and memory of less than twice its bound that a crowd left, are measured once
more, on a server that has just been started.

This page is written by `./dev hostile --page docs/reference/hostile-peers.md`, with the figures of the machine that
wrote it. `./dev test --all` measures them on yours and writes them to `docs/_build/hostile-peers.md`.

In the tables of requests, `attacks` is how many kinds of attack were made with a request. The columns `with` name the
attack that had the longest turn, and the one that took the most memory. The longest full collection and the worst wait
of the pair are those of any of them.

| call into C | over | at its limit, ms |
|---|---|---:|
"""
