"""Which tests wait for real time, and why: `python -m tests.waiting`.

Time is virtual in these tests wherever a loop of trio's is all that waits. What still waits for real time says so: a
test by `@pytest.mark.waits("why")` (or `pytestmark`, for a whole module), a module of helpers by its line in `HELPERS`,
which the list follows by the files of tests that import it; not every test in them has to wait. Names are read from the
source, so nothing has to run.

Waiting for real time is
* `time.sleep`, `asyncio.sleep`, `anyio.sleep` and `gevent.sleep`, of anything but 0;
* trio's ways to sleep, in a test that is not given a virtual clock, or in a helper whose module has none;
* a wait that is expected to end by its timeout: `not event.wait(0.1)`;
* a bound of less than a second: `thread.join(0.1)`, `asyncio.timeout(0.1)`, `send_timeout=0.1`. A longer one is taken
  for a safety net. What is virtual for a sleep is so for a bound, unless it is one of threads.

Not seen: a bound that is computed or comes from another module, one that has a name of its own (`await_termination`),
and the program that a test starts in another process.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["HELPERS", "declared", "hidden", "stale", "users"]

TESTS = Path(__file__).resolve().parent
SLEEPS = re.compile(r"(time|asyncio|anyio|gevent)\.sleep")
TRIO = re.compile(r"trio\.(sleep|sleep_until)")
BOUNDS = dict.fromkeys(("wait", "join", "result", "timeout", "move_on_after", "fail_after", "wait_assigned"), 0) | {
    "wait_for": 1
}
"""What takes a bound by position, and at which; by name it is `timeout`, or ends so."""
OF_THREADS = {"wait", "join", "result"}
SAFETY_NET = 1.0
SHOWN = 4
MAY_WAIT = re.compile(r"sleep|timeout|" + "|".join(BOUNDS))
WAIT_IN_VAIN = re.compile(r"not [\w.]+\.wait\([^)]")
VIRTUAL = re.compile(r"\b(autojump_clock|mock_clock|MockClock)\b")
CLOCKS = {"autojump_clock", "mock_clock", "clock"}

HELPERS = {
    "chaos/campaign.py": "cuts and kills real processes at given seconds",
    "chaos/consuming.py": "consumers in programs of their own take their time",
    "chaos/houses.py": "consumers in programs of their own take their time",
    "chaos/lanes.py": "senders in programs of their own take their time",
    "consumer/thread_bench.py": "listeners in real threads, which only the system wakes",
    "hostile/crowd.py": "looks until many real connections are there",
    "hostile/gate.py": "looks whether a real client has come back",
    "hostile/innocent.py": "sends to a real server at a steady pace, to see how long it waits",
    "hostile/machine.py": "looks until a process has come to rest",
    "hostile/peer.py": "looks until a real server answers",
    "hostile/subject.py": "sends at a steady pace, in a process of its own",
    "interop/beginnings.py": "waits for the next second, since consumers name one",
    "interop/clients/native/driver.py": "lingers, as the program of a user does, beside Apache's server",
    "interop/probe.py": "looks until Apache's server shows what was done",
    "kill/campaign.py": "kills real processes after given seconds",
    "kill/consuming.py": "tries again to reach a process that was killed",
    "kill/producing.py": "sends at a pace to a process that is killed",
    "kill/timing.py": "sends messages for moments of a real clock to a process that is killed",
    "kill/transacting.py": "sends in transactions at a pace to a process that is killed",
    "matrix/cases.py": "lets bounds of the public interface pass: blocking code and asyncio have no virtual clock",
    "matrix/futures.py": "lets bounds of futures pass, which threads wait for",
    "matrix/places.py": "looks until another thread has come to a place",
    "matrix/strikes.py": "lets a thread come to wait, which nobody can see from outside",
    "matrix/waits.py": "a consumer starts that no name server answers",
    "matrix/worlds.py": "takes a moment of another loop, as the program of a user does",
    "source/expiring.py": "looks until a service of a broker has deleted files",
    "spark/dying_commits.py": "looks whether other queries have come to the places where they die",
    "spark/dying_reader_job.py": "sends at a steady pace to what Spark reads",
    "system/consuming.py": "looks until consumers in other loops have come to a state",
    "ways_out/blocks.py": "a listener in a forked process takes its time",
    "ways_out/crashes.py": "looks at a forked process until its service has crashed",
    "ways_out/ground.py": "a proxy goes on after a while, whatever the forked process does then",
    "ways_out/programs.py": "a forked process lives until it is ended from outside",
    "ways_out/programs_of_admins.py": "a forked process lives until it is ended from outside",
    "ways_out/programs_of_loops.py": "a forked process lives until it is ended from outside",
    "ways_out/scene.py": "looks until a forked process and its servers have come to a state",
    "ways_out/struck.py": "an exception strikes when a forked process has come to a state",
    "ways_out/zygote.py": "looks until a forked process has ended",
}
"""Modules of helpers that wait for real time, below tests/."""


def hidden(source: str) -> list[str]:
    """Return where a module waits for real time without saying why: `line: what`."""
    if not MAY_WAIT.search(source):
        return []
    tree = ast.parse(source)
    if _why(tree.body):
        return []
    imported = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    numbers = _numbers(tree)
    by_name = [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and _imports_sleep(node)
    ]
    virtual = bool(VIRTUAL.search(source))
    return by_name + [
        f"{node.lineno}: {ast.unparse(node)}"
        for function in _functions(tree)
        if not any(_mark(decorator) for decorator in function.decorator_list)
        for is_virtual in [_is_given_a_clock(function) if _is_test(function) else virtual]
        for node in [*_sleeps(function, imported, is_virtual), *_short_bounds(function, numbers, is_virtual)]
    ]


def declared(source: str) -> Iterator[tuple[str, str]]:
    """Yield the tests of a module that wait for real time, with the reason; a whole module has the name ''."""
    tree = ast.parse(source)
    if why := _why(tree.body):
        yield "", why
    for function in _functions(tree):
        for decorator in function.decorator_list:
            if why := _mark(decorator):
                yield function.name, why


def stale() -> list[str]:
    """Return the modules of helpers that are listed but gone, or wait no more."""
    return [name for name in HELPERS if not (TESTS / name).exists() or not hidden((TESTS / name).read_text("utf-8"))]


def users(name: str, imports: dict[str, set[str]]) -> list[str]:
    """Return the files of tests that import a module of helpers, if only by way of others.

    A `conftest.py` stands for the tests that ask for its fixtures.
    """
    reached, found = [name], set()
    for module in reached:
        for path in imports:
            if _dotted(module) in imports[path] and path not in reached:
                reached.append(path)
                if Path(path).name.startswith(("test_", "conftest")):
                    found.add(path)
    return sorted(found)


def main() -> int:
    """Print what waits, one line each."""
    rows = [
        (f"{path.relative_to(TESTS)}{'::' if name else ''}{name}", why)
        for path in sorted(TESTS.rglob("test_*.py"))
        if "mark.waits(" in (source := path.read_text("utf-8"))
        for name, why in declared(source)
    ]
    width = max(len(where) for where, _ in rows)
    for where, why in rows:
        print(f"{where:{width}}  {why}")
    imports = {path.relative_to(TESTS).as_posix(): _imports(path.read_text("utf-8")) for path in TESTS.rglob("*.py")}
    for name, why in sorted(HELPERS.items()):
        files = users(name, imports)
        more = [f"and {len(files) - SHOWN} more"] if len(files) > SHOWN else []
        print(f"{name:{width}}  {why}; {', '.join(files[:SHOWN] + more) or 'no test imports it'}")
    return 0


Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(tree: ast.Module) -> Iterator[Function]:
    """Yield functions of the module and methods of its classes: what can have marks and fixtures."""
    for node in tree.body:
        for one in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(one, Function):
                yield one


def _imports(source: str) -> set[str]:
    """Return the modules of tests that a module imports, and as if it were one whatever it takes from a module."""
    found = set()
    if "tests" in source:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom):
                found |= {node.module or "", *(f"{node.module}.{each.name}" for each in node.names)}
            elif isinstance(node, ast.Import):
                found |= {each.name for each in node.names}
    return found


def _dotted(path: str) -> str:
    """Return the name by which a file below tests/ is imported."""
    return "tests." + path.removesuffix(".py").replace("/", ".")


def _is_test(function: Function) -> bool:
    return function.name.startswith("test_")


def _is_given_a_clock(function: Function) -> bool:
    given = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    return bool(given & CLOCKS) or any(_is_virtual(node) for node in ast.walk(function))


def _is_virtual(node: ast.AST) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return bool(VIRTUAL.fullmatch(name))


def _sleeps(function: Function, imported: dict[str, str], virtual: bool) -> Iterator[ast.expr | ast.stmt]:
    """Yield what sleeps in a function, or waits in vain; `time.sleep` counts without being called, too."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    # `sleep(0)` and `partial(sleep, 0)` let others run, and wait for nothing.
    called = [(node.func, *node.args) for node in calls] + [tuple(node.args) for node in calls]
    momentary = {id(given[0]) for given in called if len(given) > 1 and _is_zero(given[1])}
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.UnaryOp):  # `not event.wait(0.1)`
            if WAIT_IN_VAIN.match(ast.unparse(node.test)):
                yield node
        elif isinstance(node, ast.Attribute) and node.attr.startswith("sleep") and id(node) not in momentary:
            name = f"{imported.get(ast.unparse(node.value))}.{node.attr}"
            if SLEEPS.fullmatch(name) or (not virtual and TRIO.fullmatch(name)):
                yield node


def _short_bounds(function: Function, numbers: dict[str, float], virtual: bool) -> Iterator[ast.Call]:
    """Yield the calls that are bounded by less than a second."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            bounds = [each.value for each in node.keywords if each.arg and each.arg.endswith("timeout")]
            if name in BOUNDS:
                bounds += node.args[BOUNDS[name] :][:1]
            if not (virtual and name not in OF_THREADS) and any(_is_short(bound, numbers) for bound in bounds):
                yield node


def _is_short(bound: ast.expr, numbers: dict[str, float]) -> bool:
    value = bound.value if isinstance(bound, ast.Constant) else numbers.get(ast.unparse(bound))
    return isinstance(value, int | float) and 0 < value < SAFETY_NET


def _numbers(tree: ast.Module) -> dict[str, float]:
    """Return the numbers that have names in a module."""
    return {
        ast.unparse(node.targets[0]): node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, int | float)
    }


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _imports_sleep(node: ast.ImportFrom) -> bool:
    """Whether it hides a sleep behind a bare name, where this module does not find it."""
    names = [f"{node.module}.{each.name}" for each in node.names]
    return any(SLEEPS.fullmatch(name) or TRIO.fullmatch(name) for name in names)


def _why(body: list[ast.stmt]) -> str:
    """Return the reason in `pytestmark`, alone or in a list."""
    for node in body:
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "pytestmark" for target in node.targets):
            marks = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
            return next(filter(None, map(_mark, marks)), "")
    return ""


def _mark(node: ast.expr) -> str:
    """Return the reason of `pytest.mark.waits("reason")`."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.waits" and len(node.args) == 1:
        reason = node.args[0]
        if isinstance(reason, ast.Constant) and isinstance(reason.value, str):
            return reason.value
    return ""


if __name__ == "__main__":
    sys.exit(main())
