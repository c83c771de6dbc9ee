"""Lets browsers break long names in tables where a reader would: after an underscore, and between camel humps.

A name such as `back_pressure_for_async_send_num` is one word for a browser. Without a place to break it, it makes its
column wider than the page, or is broken in the middle of a word. `<wbr>` marks such places, and is not copied with the
text.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["breakable", "pieces", "setup"]

_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
_TEXT = re.compile(r'(<span class="pre">)?(?<=>)([^<>]+)(?=<)')
_IN_TEXT = re.compile(r"&[#\w]+;|(?<=_)(?=\w)|(?<=[a-z0-9])(?=[A-Z])")
_IN_CODE = re.compile(_IN_TEXT.pattern + r"|(?<=[./=@:,(|])(?=[\w%])")
"""Where names may be broken; an escaped character is matched first, so that nothing is put into it."""


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", _break_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _break_page(_app: Any, _name: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    if "body" in context:
        context["body"] = breakable(context["body"])


def breakable(page: str) -> str:
    """The HTML of a page, with places to break the names in its tables."""
    return _TABLE.sub(lambda table: _TEXT.sub(_break_text, table[0]), page)


def _break_text(found: re.Match[str]) -> str:
    return (found[1] or "") + "<wbr>".join(pieces(found[2], code=bool(found[1])))


def pieces(text: str, *, code: bool) -> list[str]:
    """What stays together in a text of HTML, or in its code, apart from the words that blanks divide."""
    parts, begin = [], 0
    for place in (_IN_CODE if code else _IN_TEXT).finditer(text):
        if not place[0]:
            parts.append(text[begin : place.start()])
            begin = place.start()
    return [*parts, text[begin:]]
