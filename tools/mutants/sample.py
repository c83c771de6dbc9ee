"""The same mutants for the same seed and the same code, in an order of which every beginning is a fair sample."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType

from tools.mutants.operators import Mutant, mutants_of
from tools.mutants.source import Source

PACKAGES = (
    "rocketpy/wire",
    "rocketpy/remoting",
    "rocketpy/client",
    "rocketpy/producer",
    "rocketpy/consumer",
    "rocketpy_broker_sim/store",
    "rocketpy_broker_sim/broker",
)


class Sources:
    """The files that are changed, each read once."""

    def __init__(self, root: Path, packages: Sequence[str] = PACKAGES) -> None:
        self.packages = packages
        paths = [path for package in packages for path in sorted((root / package).rglob("*.py"))]
        self.files = {
            path.relative_to(root).as_posix(): Source(path.relative_to(root).as_posix(), path.read_text("utf-8"))
            for path in paths
        }

    def package(self, path: str) -> str:
        """Return the package that a file belongs to."""
        return next(package for package in self.packages if path.startswith(package + "/"))

    def mutated(self, mutant: Mutant) -> str:
        """Return the whole file with the change."""
        return self.files[mutant.path].replaced(mutant.span, mutant.new)

    def all(self) -> list[Mutant]:
        """Return every mutant that there is."""
        return [mutant for source in self.files.values() for mutant in mutants_of(source)]

    def chosen(self, seed: int, count: int, only: Sequence[str] = ()) -> list[Mutant]:
        """Return the first `count` of all mutants, shuffled; `only` leaves the other packages out of that order."""
        order = self.all()
        random.Random(seed).shuffle(order)
        wanted = (mutant for mutant in order if not only or self.package(mutant.path) in only)
        return _first(count, (mutant for mutant in wanted if self.changes_something(mutant)))

    def named(self, names: Iterable[str]) -> list[Mutant | None]:
        """Return the mutants of these names, None for those that this tree does not have."""
        known = {mutant.name: mutant for mutant in self.all()}
        return [known.get(name) for name in names]

    def changes_something(self, mutant: Mutant) -> bool:
        """False where what comes out is no Python, or is compiled to the same."""
        try:
            new = compile(self.mutated(mutant), mutant.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return not _alike(new, compile(self.files[mutant.path].data, mutant.path, "exec", dont_inherit=True))


def _alike(one: CodeType, other: CodeType) -> bool:
    """True where only the places in the text differ, which later Pythons compare too."""
    same = one.co_code == other.co_code and one.co_names == other.co_names and one.co_varnames == other.co_varnames
    return (
        same
        and len(one.co_consts) == len(other.co_consts)
        and all(
            _alike(this, that) if isinstance(this, CodeType) and isinstance(that, CodeType) else _same(this, that)
            for this, that in zip(one.co_consts, other.co_consts, strict=True)
        )
    )


def _same(this: object, that: object) -> bool:
    return type(this) is type(that) and repr(this) == repr(that)  # True is not 1, and 0.0 is not -0.0


def _first(count: int, mutants: Iterator[Mutant]) -> list[Mutant]:
    return [mutant for mutant, _ in zip(mutants, range(count), strict=False)]
