"""Reading the properties of many messages at once, a list of values for each name.

The messages of one producer have the same names in the same order, and the same values of many of them. The work is
done by the interpreter's own loops over one text of all messages, which takes a fraction of the time that reading each
takes.
"""

from __future__ import annotations

__all__ = ["common_properties"]

_NO_SEPARATORS = bytes({*range(256)} - {1, 2})
_SAMPLES = 8
"""Messages, about, that are looked at to tell which values are the same in all."""
_VARYING = 3
"""Properties, at most, whose values are cut out by replacing all else. That searches the whole text once for each of
them, so with more it is quicker to take everything apart; and names could be made up that keep a search busy."""


def common_properties(packed: list[bytes]) -> dict[str, list[str]] | None:
    """The properties of messages that all have the same names in the same order, as those of one producer have.

    Returns:
        The values by name, in the order of the messages; None if the messages differ in their names. Of a name that
        comes twice, as in batches, the last value counts.
    """
    if not packed:
        return None
    count, size = packed[0].count(b"\x02"), len(packed)
    if not count or [each.count(b"\x02") for each in packed].count(count) < size:
        return None
    # Each message has as many separators as the first. So if every separator added here stands behind a row of as many
    # pairs in the text, every message is such a row.
    joined = b"\x02".join([*packed, b""])
    found = _varying(packed, joined)
    return _all(joined, count, size) if found is None else found


def _all(joined: bytes, count: int, size: int) -> dict[str, list[str]] | None:
    """Take every name and value out of the text."""
    if joined.translate(None, _NO_SEPARATORS) != (b"\x01\x02" * count + b"\x02") * size:
        return None
    parts = joined.decode("utf-8", "replace").replace("\x02", "\x01").split("\x01")
    step = 2 * count + 1
    found: dict[str, list[str]] = {}
    for index in range(count):
        named, values = parts[2 * index : -1 : step], parts[2 * index + 1 : -1 : step]
        if not named[0] or named.count(named[0]) < size or "" in values:
            return None
        found[named[0]] = values
    return found


def _varying(packed: list[bytes], joined: bytes) -> dict[str, list[str]] | None:
    """Take only those values out of the text that are not the same in all messages; None where that does not work.

    What stands between two such values is the same in all messages, names and other values, and is replaced by a
    marker of its own: a 2 and one or more 1. Neither a marker nor a part of one can be part of such a stretch, as names
    and values in it are not empty. So if each stretch was found once a message, and no other separator is left than
    those of the markers, in the order of a message, the text consists of nothing else.
    """
    pairs = _pairs(packed)
    if pairs is None:
        return None
    size = len(packed)
    first, stretches = _stretches(pairs)
    if not 0 < len(stretches) <= _VARYING or not joined.startswith(first):
        return None
    text = joined[len(first) :] + first
    markers = [b"\x02" + b"\x01" * number for number in range(1, len(stretches) + 1)]
    # The longest first, as another one may be a part of it.
    for stretch, marker in sorted(zip(stretches, markers, strict=True), key=lambda each: -len(each[0])):
        before, saved = len(text), len(stretch) - len(marker)
        text = text.replace(stretch, marker)
        if saved <= 0 or before - len(text) != size * saved:
            return None
    if text.translate(None, _NO_SEPARATORS) != b"".join(markers) * size:
        return None
    parts = text.replace(b"\x01", b"").decode("utf-8", "replace").split("\x02")
    found, place = {}, 0
    for name, value in pairs:
        if value is not None:
            values = [value.decode("utf-8", "replace")] * size
        else:
            values = parts[place : -1 : len(stretches)]
            place += 1
            if "" in values:
                return None
        found[name.decode("utf-8", "replace")] = values
    return found


def _pairs(packed: list[bytes]) -> list[tuple[bytes, bytes | None]] | None:
    """Names and values of the first message, None for a value that others do not share; as some of them say."""
    rows = []
    for each in packed[:: max(1, len(packed) // _SAMPLES)]:
        row = [pair.split(b"\x01") for pair in each.split(b"\x02")]
        if row.pop() != [b""] or any(len(pair) != 2 or b"" in pair for pair in row):
            return None
        rows.append(row)
    found: list[tuple[bytes, bytes | None]] = []
    for name, value in rows[0]:
        place = len(found)
        if any(len(row) <= place or row[place][0] != name for row in rows):
            return None
        found.append((name, value if all(row[place][1] == value for row in rows) else None))
    return found


def _stretches(pairs: list[tuple[bytes, bytes | None]]) -> tuple[bytes, list[bytes]]:
    """What stands before the first value that varies, and behind each of them up to the next."""
    text, found = b"", []
    for name, value in pairs:
        text += name + b"\x01"
        if value is None:
            found.append(text)
            text = b"\x02"
        else:
            text += value + b"\x02"
    if not found:
        return text, found
    first = found[0]
    return first, [*found[1:], text + b"\x02" + first]
