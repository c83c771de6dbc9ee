"""The last line of a task that has several parts: what failed, or that nothing did."""

from __future__ import annotations

from collections.abc import Mapping

from tools.trouble import say


def verdict(task: str, parts: Mapping[str, int]) -> int:
    """Say which parts failed; return the first status that is not 0.

    Args:
        task: The name of the task.
        parts: The exit status of each part; one that is the whole task need not be named.
    """
    failed = [name for name, status in parts.items() if status]
    if not failed:
        say(f"{task}: all passed")
    elif len(parts) == 1:
        say(f"{task}: FAILED")
    else:
        say(f"{task}: FAILED: {', '.join(failed)}")
    return next((status for status in parts.values() if status), 0)
