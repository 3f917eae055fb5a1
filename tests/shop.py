"""A shop whose bookings can be taken back: what the tests of undo have in common."""

from __future__ import annotations

from collections.abc import Sequence

from surehand import ToolCall, ToolError, ToolUndone, tool, undoes
from surehand.testing import call

from .modes import Ended

WHY_GIVEN_UP = "Tool 'book' had succeeded, but it was undone because the run was given up."


class Shop:
    """Books things and takes bookings back; ``log`` tells in which order."""

    def __init__(self, *, fails_to_cancel: Sequence[str] = ()) -> None:
        self.log: list[str] = []
        self._fails_to_cancel = fails_to_cancel

    @tool
    def book(self, what: str) -> str:
        self.log.append(f"book {what}")
        return f"booked {what}"

    @undoes(book)
    def cancel(self, booking: str) -> None:
        self.log.append(f"cancel {booking}")
        if booking.removeprefix("booked ") in self._fails_to_cancel:
            raise OSError("line is dead")

    @tool
    def email(self) -> str:
        self.log.append("email")
        return "sent"

    @tool
    def pay(self, how: str = "badly") -> str:
        self.log.append(f"pay {how}")
        match how:
            case "politely":
                raise ToolError("card refused")
            case "badly":
                raise ValueError("card reader broke")
            case _:
                return "paid"


def book(what: str, id: str | None = "b") -> ToolCall:
    return call("book", f'{{"what": "{what}"}}', id=id)


def pay(how: str) -> ToolCall:
    return call("pay", f'{{"how": "{how}"}}', id="p")


def undone(ended: Ended) -> list[tuple[str, str | None]]:
    """What was undone, in the order of the events: the call's arguments, and what went wrong."""
    return [(e.execution.result.text, None if e.execution.undo is None else e.execution.undo.error)
            for e in ended.of(ToolUndone)]  # fmt: skip
