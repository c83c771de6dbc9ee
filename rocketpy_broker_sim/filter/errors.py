"""What can be wrong with an expression, and with a message that it is asked about."""

from __future__ import annotations

from rocketpy.errors import ConfigError

__all__ = ["EvaluationError", "FilterExpressionError"]


class FilterExpressionError(ConfigError):
    """An expression cannot be used. Plays MQFilterException.

    Attributes:
        problem: What is wrong, and what to write instead.
        position: The character that it is about, counted from 1.
    """

    def __init__(self, problem: str, position: int) -> None:
        self.problem = problem
        self.position = position
        super().__init__(f"at character {position}: {problem}")

    def again(self) -> FilterExpressionError:
        """The same error, for another one who made the mistake: tracebacks must not gather on one that all share."""
        return FilterExpressionError(self.problem, self.position)


class EvaluationError(ValueError):
    """A property is not what the expression takes it for, such as a number: the message does not match."""
