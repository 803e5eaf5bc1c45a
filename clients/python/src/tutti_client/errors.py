"""Typed errors: match on the class or on `code`, never on the text."""

from __future__ import annotations


class TuttiError(Exception):
    """A request failed. If `retryable`, the same request may be sent again, after `retry_after` seconds if given."""

    _codes: tuple[str, ...] = ()

    def __init__(self, code: str, text: str, retryable: bool = False, retry_after: float | None = None) -> None:
        super().__init__(code, text, retryable, retry_after)
        self.code, self.text, self.retryable, self.retry_after = code, text, retryable, retry_after

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"

    @staticmethod
    def of(code: str, text: str, retryable: bool | None = None, retry_after: float | None = None) -> TuttiError:
        """Make an error of the code's class. By default it is as retryable as docs/messages.md says of the code."""
        kind = next((kind for kind in TuttiError.__subclasses__() if code in kind._codes), TuttiError)
        is_usually = kind in (Refused, Unavailable, DeadlineExceeded) and code != "TUTTI_DEADLINE_INFEASIBLE"
        return kind(code, text, is_usually if retryable is None else retryable, retry_after)


class InvalidInput(TuttiError, ValueError):
    """The model doesn't take this request, or it exceeds a limit: correct it."""

    _codes = ("TUTTI_INVALID_INPUT", "TUTTI_TOO_LARGE")


class Refused(TuttiError):
    """The request would not be served by its deadline: allow more time, or send it again after `retry_after`."""

    _codes = ("TUTTI_DEADLINE_INFEASIBLE", "TUTTI_OVERLOADED", "TUTTI_NOT_READY", "TUTTI_QUOTA_EXCEEDED")


class DeadlineExceeded(TuttiError):
    """The deadline passed without a result: a batch was lost, or ran longer than planned."""

    _codes = ("TUTTI_DEADLINE_EXCEEDED",)


class Unavailable(TuttiError):
    """No server or no ingress answers, or the one that had the request died."""

    _codes = ("TUTTI_UNAVAILABLE",)


def invalid(text: str) -> TuttiError:
    """Make the error of a call that can't be made as it is."""
    return TuttiError.of("TUTTI_INVALID_INPUT", text)
