"""What a body of JSON is like: which members it has and of which kinds, whatever the values are."""

from __future__ import annotations

__all__ = ["shape"]


def shape(value: object) -> object:
    """Names of members and kinds of values, of lists and tables those of the first element.

    Names of members begin with a lower-case letter; anything else is a key of a table.
    """
    if isinstance(value, dict):
        if value and all(isinstance(each, str) and each.isidentifier() and each[0].islower() for each in value):
            return {name: shape(each) for name, each in value.items()}
        return [shape(each) for each in list(value.values())[:1]]
    if isinstance(value, list):
        return [shape(each) for each in value[:1]]
    return type(value).__name__
