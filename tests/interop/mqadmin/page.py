"""The page of `mqadmin`: for each line, every command, what it is asked, and whether it prints the same. Pure.

It is made of the declarations that `test_commands.py` compares with a run, so a run that passes confirms the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from tests.interop.apache import LINES
from tests.interop.mqadmin.known import KNOWN, REFUSED
from tests.interop.mqadmin.step import Step, of_line
from tests.interop.mqadmin.steps import STEPS

__all__ = ["page"]

_HEAD = """\
# mqadmin

Apache's command-line tool `mqadmin` works with our servers. This page lists every command of its last releases, 5.3.3
and 4.9.7, with the options that were tried on two clusters with the same topics, groups, messages and clients: Apache's
servers of that release, and ours.

*Same* means that the tool prints the same lines with the same columns and the same small numbers, such as offsets;
times, addresses, ids, rates and sizes are not compared. For a refusal, the code is compared, because our servers have
their own texts. If a reason follows *same*, both clusters refuse. Calls of a command with the same result share a row.

In the options, `{namesrv}` and `{broker}` are addresses, `{name}` is the name of the broker, `{cluster}` that of the
cluster, `{home}` the directory of the broker, `{dir}` a directory for files, `{client}` the id of a consumer, and
`{message}` and `{unique}` are the two ids of a message. Every call also has `-n {namesrv}`.

`python -m tests.interop.mqadmin --page docs/reference/mqadmin.md` writes this page. `./dev interop` runs all of the
commands, and fails if a row is wrong.
"""


def page() -> str:
    """The text."""
    return "\n".join([_HEAD, *map(_table, LINES)])


def _table(version: str) -> str:
    rows = [f"| `{name}` | {asked} | {result} |" for name, asked, result in _rows(version)]
    return "\n".join([f"## {version}\n", "| command | options | output |", "|---|---|---|", *rows, ""])


def _rows(version: str) -> Iterator[tuple[str, str, str]]:
    """Name, options and result, commands by name; calls of a command with one result together."""
    steps = sorted(dict.fromkeys(of_line(STEPS, version)), key=lambda each: each.command)
    for name, of_command in groupby(steps, key=lambda each: each.command):
        results: dict[str, dict[str, None]] = {}
        for step in of_command:
            options = step.text.partition(" ")[2]
            results.setdefault(_result(version, step), {})[f"`{options}`" if options else "none"] = None
        for result, asked in results.items():
            yield name, "; ".join(asked), result


def _result(version: str, step: Step) -> str:
    differences = [each.why for each in KNOWN if version in each.lines and each.concerns(step)]
    refusals = [each.why for each in REFUSED if version in each.lines and each.concerns(step)]
    told = "; ".join(dict.fromkeys(refusals + differences))
    if differences:
        return f"differs: {told}"
    return f"same: {told}" if refusals else "same"
