"""Every error of surehand, drawn as a tree.

SurehandError
├── UserError (also a ValueError)      the library is used wrongly: says what, where and what to do
├── ToolError                          raised *by a tool*: tell the model this text; nothing happened
├── ToolArgumentsError                 the model sent arguments that do not fit; the body was not entered
├── ToolExecutionError                 a body failed in a way that cannot be shown as itself
│   └── ToolTimeout                    a body did not finish in time: it may have happened
├── UnknownToolError                   the model named a tool that does not exist, and policy says stop
├── AsyncNotSupportedError             a component that must not leave its thread was used in an async mode
├── LimitError                         a limit of the run was reached
│   ├── RoundLimitError
│   ├── CallLimitError
│   ├── TokenLimitError
│   ├── TimeLimitError
│   ├── CostLimitError
│   ├── RepeatedCallError
│   └── ConsecutiveErrorsError         a model that never learns
├── ReplyCutOffError                   the reply was cut by the token limit, again
├── EmptyReplyError                    the model said nothing at all, again
├── OutputError                        the model's answer is not of the type that was declared, again
├── RunCancelled                       the run was cancelled through its token
├── JournalError                       a run could not be recorded, or its record could not be read
│   ├── JournalUnavailable             the store cannot be read or written now: full, locked, read-only
│   ├── JournalDamaged                 what is stored is not what was written
│   ├── JournalTooNew                  written by a newer surehand
│   ├── RunExists                      there is a run with that id already
│   ├── UnknownRun                     there is none
│   ├── RecordExists                   a record that may exist once is there already
│   ├── StaleClaim                     somebody else has claimed the run since: it must not go on here
│   └── ReplayMismatch                 what the run does now is not what its journal says it did
├── RunInProgress                      somebody else is at work on that run
├── RunGivenUp                         the run was given up before, and what it did was dealt with
├── ModelError                         a provider refused or failed
│   ├── RateLimitError                 carries retry_after (seconds)
│   ├── AuthenticationError
│   ├── ContextLengthError
│   ├── ContentFilterError
│   ├── OverloadedError
│   ├── BadRequestError
│   └── NetworkError
└── UnexpectedRequestError             a scripted model was asked more than its script holds
Suspended (a BaseException)            control flow: the run waits; never undoes
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AsyncNotSupportedError",
    "AuthenticationError",
    "BadRequestError",
    "CallLimitError",
    "ConsecutiveErrorsError",
    "ContentFilterError",
    "ContextLengthError",
    "CostLimitError",
    "EmptyReplyError",
    "JournalDamaged",
    "JournalError",
    "JournalTooNew",
    "JournalUnavailable",
    "LimitError",
    "ModelError",
    "NetworkError",
    "OutputError",
    "OverloadedError",
    "RateLimitError",
    "RecordExists",
    "RepeatedCallError",
    "ReplayMismatch",
    "ReplyCutOffError",
    "RoundLimitError",
    "RunCancelled",
    "RunExists",
    "RunGivenUp",
    "RunInProgress",
    "StaleClaim",
    "SurehandError",
    "Suspended",
    "TimeLimitError",
    "TokenLimitError",
    "ToolArgumentsError",
    "ToolError",
    "ToolExecutionError",
    "ToolTimeout",
    "UnexpectedRequestError",
    "UnknownRun",
    "UnknownToolError",
    "UserError",
]


class SurehandError(Exception):
    """Base of every error that surehand raises."""


class UserError(SurehandError, ValueError):
    """The library is used wrongly. The message names the offender, what was expected, and the remedy."""


class ToolError(SurehandError):
    """Raise it in a tool to tell the model why the tool did nothing; the text reaches the model word for word.

    It is the tool's word that nothing happened. If something may have happened, raise anything else.
    """


class ToolArgumentsError(SurehandError):
    """The arguments that the model sent do not fit the tool; the body was not entered (spec 4.4, 9.1)."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class ToolExecutionError(SurehandError):
    """A body failed in a way that cannot be passed on as itself; the original is ``__cause__`` (spec 9.1, 9.9)."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class ToolTimeout(ToolExecutionError):
    """A body did not finish within its ``timeout=``: whether it happened is not known."""


class UnknownToolError(SurehandError):
    """The model called a tool that does not exist, and the policy for unknown names is to abort (spec 10.1)."""


class AsyncNotSupportedError(SurehandError):
    """A component bound to its thread (``offload = False``) was used in ``arun`` or ``astream`` (spec 6.2.2)."""


class LimitError(SurehandError):
    """A limit of the run was reached; the message names the limit and the option that sets it."""


class RoundLimitError(LimitError):
    """The model asked for tools after ``Limits(rounds=…)`` rounds; none of those calls ran (spec 7.2)."""


class CallLimitError(LimitError):
    """The model asked for more calls than ``Limits(calls=…)`` allows, or the limits of one tool."""


class TokenLimitError(LimitError):
    """The run spent more tokens than ``Limits(tokens=…)`` allows, or runs inside one of its tools."""


class TimeLimitError(LimitError):
    """The run took longer than ``Limits(seconds=…)`` allows, or one of its tools."""


class CostLimitError(LimitError):
    """The run cost more money than ``Limits(cost=…)`` allows, or would with the calls that the model asks for."""


class RepeatedCallError(LimitError):
    """The model made the same call with the same arguments too often, and ``repeated_calls="stop"`` is set."""


class ConsecutiveErrorsError(LimitError):
    """Every call failed in too many rounds in a row (spec 9.6); ``__cause__`` is the last failure that was raised."""


class ReplyCutOffError(SurehandError):
    """The model's reply was cut off by its token limit while it asked for tools, and again when it was asked anew."""


class EmptyReplyError(SurehandError):
    """The model's reply held neither text nor calls although it said that it asks for tools, twice."""


class OutputError(SurehandError):
    """The model's answer does not fit ``Agent(output=…)``, although it was told so ``output_retries`` times."""


class RunCancelled(SurehandError):
    """The run was cancelled through its ``CancelToken``; what it had done has been dealt with."""


class JournalError(SurehandError):
    """A run could not be recorded, or its record could not be read; what was recorded before stands."""


class JournalUnavailable(JournalError):
    """The store cannot be read or written now: the disk is full, the file is locked or read-only."""


class JournalDamaged(JournalError):
    """What is stored is not what was written, or the file is no journal."""


class JournalTooNew(JournalError):
    """The journal was written by a newer surehand, whose records this one does not know."""


class RunExists(JournalError):
    """There is a run with that id already."""


class UnknownRun(JournalError):
    """There is no run with that id."""


class RecordExists(JournalError):
    """A record that may exist only once is there already: what it records must not be done again."""


class StaleClaim(JournalError):
    """Somebody else has claimed the run since: whoever gets this must do nothing more for it."""


class ReplayMismatch(JournalError):
    """A resumed run would do something else than its journal says it did; nothing was done or undone (design 5)."""


class RunInProgress(SurehandError):
    """Another process, thread or task is at work on that run; ``take_over=True`` takes it away from there."""


class RunGivenUp(SurehandError):
    """The run was given up before, ``because`` of the error in these words; ``report_of`` says what became of it."""

    def __init__(self, message: str, *, because: str = "") -> None:
        super().__init__(message)
        self.because = because


class ModelError(SurehandError):
    """A provider refused a request or failed; the SDK's own exception is ``__cause__``.

    ``status`` is the HTTP status where there was one.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class RateLimitError(ModelError):
    """Too many requests; ``retry_after`` is the provider's advice in seconds, if it gave one."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, status=status)
        self.retry_after = retry_after


class AuthenticationError(ModelError):
    """The key is missing, wrong, or not allowed to do this."""


class ContextLengthError(ModelError):
    """The conversation is longer than the model can read."""


class ContentFilterError(ModelError):
    """The provider refused the content."""


class OverloadedError(ModelError):
    """The provider is overloaded or failed on its side."""


class BadRequestError(ModelError):
    """The provider did not accept the request."""


class NetworkError(ModelError):
    """The provider could not be reached, or the connection broke or timed out."""


class UnexpectedRequestError(SurehandError):
    """A scripted model was asked for more replies than its script holds."""


class Suspended(BaseException):
    """The run waits for someone; it is not given up and nothing is undone. Do not catch it."""


def closest_names(name: str, names: Sequence[str], *, most: int = 5, cutoff: float = 0.4) -> list[str]:
    """At most ``most`` of the names, best match first, for messages of the kind "did you mean" (spec 10.1)."""
    import difflib

    return difflib.get_close_matches(name, names, n=most, cutoff=cutoff)
