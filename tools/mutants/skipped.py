"""What no mutant touches: what only people read, what only type checkers read, and what decorators are told."""

from __future__ import annotations

import ast

LOGGERS = {"log", "logger", "_log", "_logger"}
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
NAMES_OF_NAMES = {"__all__", "__slots__", "__match_args__"}
ONLY_NAMING = {"TypeVar", "ParamSpec", "NewType", "NamedTuple", "TypedDict", "cast", "get_logger", "getLogger"}
ONLY_TYPES = {"annotation", "returns", "decorator_list", "type_params"}


def is_skipped(node: ast.AST, parent: ast.AST, field: str) -> bool:
    """True for what is left as it is, with all that it holds."""
    return (
        field in ONLY_TYPES
        or isinstance(parent, ast.JoinedStr)  # before Python 3.12 its parts do not know where they stand
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))  # a docstring
        or (isinstance(parent, ast.If) and field == "body" and is_type_checking(parent.test))
        or is_log_call(node)
        or (isinstance(node, ast.Call) and _last_name(node.func) in ONLY_NAMING)
        or _names_names(node)
        or _is_overload(node)
    )


def is_log_call(node: ast.AST) -> bool:
    """True for a call that tells a logger something."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS):
        return False
    return _last_name(node.func.value) in LOGGERS


def is_type_checking(test: ast.AST) -> bool:
    """True for the condition that only type checkers find true."""
    return _last_name(test) == "TYPE_CHECKING"


def is_for_people(node: ast.AST, parent: ast.AST, field: str) -> bool:
    """True where texts are for people: in what is raised, and in the message of an assertion."""
    return isinstance(node, ast.Raise) or (isinstance(parent, ast.Assert) and field == "msg")


def _names_names(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(_last_name(target) in NAMES_OF_NAMES for target in targets)


def _is_overload(node: ast.AST) -> bool:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else []
    return any(_last_name(decorator) == "overload" for decorator in decorators)


def _last_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
