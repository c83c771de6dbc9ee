"""Errors for entering a cluster with the wrong kind of `with`: each says which class to use instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    from rocketpy.portal.wrong_with import WrongWith

__all__ = ["EnteredAsync", "EnteredPlain"]


class EnteredAsync:
    """Base class of clusters that are entered with `async with`. A plain `with` raises an error that says so."""

    if not TYPE_CHECKING:  # type checkers report it by themselves, because the methods are missing
        __enter__ = __exit__ = WrongWith(
            "{name} is entered with `async with`, in async code; in blocking code, use BlockingLocalCluster"
        )


class EnteredPlain:
    """Base class of clusters that are entered with `with`. An `async with` raises an error that says so."""

    if not TYPE_CHECKING:
        __aenter__ = __aexit__ = WrongWith(
            "{name} is entered with `with`; in async code, use LocalCluster on trio, AsyncioLocalCluster on asyncio"
        )
