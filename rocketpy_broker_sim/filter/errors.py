"""The errors of expressions, when they are compiled and when they are evaluated."""

from __future__ import annotations

from rocketpy.errors import ConfigError

__all__ = ["EvaluationError", "FilterExpressionError"]


class FilterExpressionError(ConfigError):
    """An expression cannot be used. Plays MQFilterException.

    Attributes:
        problem: What is wrong, and what to write instead.
        position: The character at which it is, counted from 1.
    """

    def __init__(self, problem: str, position: int) -> None:
        self.problem = problem
        self.position = position
        super().__init__(f"at character {position}: {problem}")

    def again(self) -> FilterExpressionError:
        """A copy to raise for another caller, so that tracebacks do not pile up on one object."""
        return FilterExpressionError(self.problem, self.position)


class EvaluationError(ValueError):
    """A property does not have the type that the expression needs, such as a number: the message does not match."""
