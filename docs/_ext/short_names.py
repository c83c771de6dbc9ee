"""Lets annotations that name a class by its short name link to it, wherever it is documented.

Annotations are text, and many of their names are imported for type checkers alone, so autodoc cannot follow them.
"""

from __future__ import annotations

from typing import Any


def setup(app: Any) -> dict[str, bool]:
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}


def resolve(_app: Any, env: Any, node: Any, content: Any) -> Any:
    """A link to the one documented object of this short name; None when there is none, or more than one."""
    wanted = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not wanted.isidentifier():
        return None
    domain = env.get_domain("py")
    found = {
        (entry.docname, entry.node_id): name
        for name, entry in domain.objects.items()
        if name.rpartition(".")[2] == wanted and not entry.aliased
    }
    if len(found) > 1:  # the same name on three surfaces: that of the page, or else the first of them
        found = {place: name for place, name in found.items() if place[0] == node.get("refdoc")} or found
    for name in sorted(found.values()):
        return domain.resolve_xref(env, node["refdoc"], _app.builder, "obj", name, node, content)
    return None
