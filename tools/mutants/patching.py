"""Puts a mutant into modules that are imported already: functions get the code that the changed file gives them."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType


class Live:
    """Every function of this process, found by the file and the line that it comes from."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, int, str], list[FunctionType]] = {}
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType):
                self._functions.setdefault(_key(thing.__code__), []).append(thing)

    def patch(self, path: str, old: str, new: str) -> bool:
        """Give the functions of a file their new code; False, with nothing done, where that cannot be done."""
        pairs = list(_different(_compiled(path, old), _compiled(path, new)))
        found = [(function, code) for before, code in pairs for function in self._of(before)]
        if not pairs or None in {code for _, code in pairs} or not self._of(pairs[0][0]):
            return False
        if any(len(function.__code__.co_freevars) != len(code.co_freevars) for function, code in found if code):
            return False
        for function, code in found:
            assert code is not None
            function.__code__ = code
        return True

    def _of(self, code: CodeType) -> list[FunctionType]:
        return [function for function in self._functions.get(_key(code), []) if function.__code__ == code]


def _key(code: CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_qualname


def _different(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType | None]]:
    """Yield the functions of a module that differ, outer ones first; None where there is no second one."""
    before = [const for const in old.co_consts if isinstance(const, CodeType)]
    after = [const for const in new.co_consts if isinstance(const, CodeType)]
    if [code.co_qualname for code in before] != [code.co_qualname for code in after]:
        yield old, None
        return
    for one, other in zip(before, after, strict=True):
        if one != other:
            if one.co_flags & inspect.CO_OPTIMIZED:  # a function, no body of a class
                yield one, other
            yield from _different(one, other)


def _compiled(path: str, text: str) -> CodeType:
    return compile(text, path, "exec", dont_inherit=True)
