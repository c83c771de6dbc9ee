"""The wrong way to enter a cluster: each class says which one to take instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    from rocketpy.portal.wrong_with import WrongWith

__all__ = ["EnteredAsync", "EnteredPlain"]


class EnteredAsync:
    """Base class of clusters that are entered with `async with`: `with` says so."""

    if not TYPE_CHECKING:  # type checkers say it by themselves, of classes without these methods
        __enter__ = __exit__ = WrongWith(
            "{name} is entered with `async with`, in async code; in blocking code, take BlockingLocalCluster"
        )


class EnteredPlain:
    """Base class of clusters that are entered with `with`: `async with` says so."""

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = WrongWith(
            "{name} is entered with `with`; in async code, take LocalCluster on trio, AsyncioLocalCluster on asyncio"
        )
