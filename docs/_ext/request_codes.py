"""Writes the page of request codes from the declarations in rocketpy.wire, whenever the pages are built.

The page holds a marker; what stands here takes its place before the page is read. So the page cannot lag behind.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from rocketpy.wire.catalogue import exchanges
from rocketpy.wire.catalogue.exchanges import EXCHANGES, Exchange, body_codec, body_name, header_class
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.common import EXTRA_FIELDS, RpcHeader, TopicHeader
from rocketpy.wire.json_body import Body, members_of

if TYPE_CHECKING:
    from rocketpy.wire.fields import Header

PAGE = "reference/request-codes"
MARKER = "<!-- the list of request codes is put here -->"
INHERITED = {field.name for field in TopicHeader.wire_fields}
KINDS = {"text": "text", "int32": "32 bits", "int64": "64 bits", "boolean": "true or false", "float64": "number"}
WORDS = {
    "message": "the payload of one message, as it is (the flag word says whether it is packed)",
    "batch": "the messages of a batch, one after the other",
    "records": "stored messages, one after the other",
    "properties": "text: lines of `key=value`",
    "names": "a JSON array of names",
    "text": "text",
}


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", fill_page)
    return {"parallel_read_safe": True}


def fill_page(_app: Any, name: str, source: list[str]) -> None:
    if name == PAGE:
        source[0] = source[0].replace(MARKER, page())


def page() -> str:
    """Everything below the introduction."""
    parts = [fields_of_any_request()]
    for subject, codes in EXCHANGES.items():
        parts.append(f"## {subject}\n")
        parts += [one_code(RequestCode(code), row) for code, row in sorted(codes.items()) if not row.unused]
    parts += [unused_codes(), "## Bodies\n", "JSON objects; `!` marks a member that must be there.\n"]
    parts += [one_body(kind) for kind in sorted(bodies(), key=lambda kind: kind.__name__)]
    return "\n".join(parts)


def fields_of_any_request() -> str:
    lines = [f"* `{name}`: {meaning}" for name, meaning in EXTRA_FIELDS.items()]
    inherited = [f"* `{field.name}` ({KINDS[field.kind]})" for field in RpcHeader.wire_fields]
    return "\n".join(
        [
            "## Fields of any request\n",
            "Beside the fields of its header a request may carry:\n",
            *lines,
            "\nand those of headers marked *routed* also:\n",
            *inherited,
            "",
        ]
    )


def one_code(code: RequestCode, row: Exchange) -> str:
    request, answer = header_class(code), header_class(code, answer=True)
    about = inspect.cleandoc(request.__doc__ or "") if request is not None else row.about
    lines = [f"### {code.name} ({int(code)})\n", f"{about}\n"]
    lines += header_part("Request", request)
    lines += body_part("Body", code, answer=False)
    lines += header_part("Answer", answer)
    lines += body_part("Body of the answer", code, answer=True)
    return "\n".join(lines)


def header_part(title: str, header: type[Header] | None) -> list[str]:
    if header is None:
        return []
    routed = " (*routed*)" if issubclass(header, RpcHeader) else ""
    own = [field for field in header.wire_fields if not (routed and field.name in INHERITED and field.short is None)]
    head = [f"{title}: `{header.__name__}`{routed}\n"]
    if not own:
        return head
    rows = []
    for field in own:
        short = f" (`{field.short}`)" if field.short else ""
        kind = KINDS.get(field.kind, f"name of a `{field.kind}`")
        rows.append(f"| `{field.name}`{short} | {kind} | {'yes' if field.required else 'no'} |")
    return [*head, "| field | type | required |", "|---|---|---|", *rows, ""]


def body_part(title: str, code: int, *, answer: bool) -> list[str]:
    name = body_name(code, answer=answer)
    if not name:
        return []
    if "." not in name:
        return [f"{title}: {WORDS[name]}\n"]
    kind = name.strip("[]").rpartition(".")[2]
    return [f"{title}: {'a JSON array of ' if name.startswith('[') else ''}[{kind}](#{kind.lower()})\n"]


def unused_codes() -> str:
    rows = [
        f"| {code} | {RequestCode(code).name} | {row.unused} |"
        for codes in EXCHANGES.values()
        for code, row in sorted(codes.items())
        if row.unused
    ]
    return "\n".join(["## Codes without a meaning\n", "| code | name | why |", "|---|---|---|", *rows, ""])


def bodies() -> set[type[Any]]:
    """The bodies of all exchanges and what they are made of."""
    found: set[type[Any]] = set()
    for code in RequestCode:
        for answer in (False, True):
            name = body_name(code, answer=answer)
            if "." in name and body_codec(code, answer=answer) is not None:
                subject, _, kind = name.strip("[]").partition(".")
                found |= with_parts(getattr(exchanges.body_module(subject), kind))
    return found


def with_parts(kind: type[Any]) -> set[type[Any]]:
    found, left = set(), [kind]
    while left:
        each = left.pop()
        if each in found:
            continue
        found.add(each)
        module = inspect.getmodule(each)
        text = " ".join(annotations(each).values())
        left += [
            other
            for name, other in vars(module).items()
            if isinstance(other, type) and issubclass(other, Body) and other is not Body and name in words(text)
        ]
    return found


def words(text: str) -> set[str]:
    return set("".join(char if char.isalnum() else " " for char in text).split())


def annotations(kind: type[Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        found |= {name: str(note) for name, note in vars(base).get("__annotations__", {}).items()}
    return found


def one_body(kind: type[Any]) -> str:
    notes = annotations(kind)
    lines = [f"### {kind.__name__}\n", f"{inspect.cleandoc(kind.__doc__ or '').partition(chr(10))[0]}\n"]
    if not issubclass(kind, Body):
        return "\n".join(lines)
    lines += ["| member | type |", "|---|---|"]
    for member in members_of(kind):
        note = notes[member.attribute].replace("|", "\\|")
        lines.append(f"| `{member.names[0]}`{'!' if member.required else ''} | `{note}` |")
    return "\n".join([*lines, ""])
