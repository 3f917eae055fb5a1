"""Never twice, never lost, always accounted for: random runs in every mode against a world that keeps count.

The mutants at the end take one promise away each, and the same check has to find that out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from msgspec.structs import replace

from surehand import Absent, Outcome, UndoOutcome, _giveup, _loop, _output, _recalling, _recorded
from surehand._aperform import Awaiting
from surehand._books import Run
from surehand._effects import Drain, Offload, RunUndo
from surehand._ledger import Ledger
from surehand._perform import Blocking
from surehand.tools._output_type import OutputType

from .machine.checks import Broken, check
from .machine.scripts import MODES, Script, scripts

EXAMPLES = 60


def property_of(mode: str, *, focus: str = "", shrinks: bool = True) -> Callable[[], None]:
    """A test of random scripts in that mode, the same ones every time."""
    phases = (Phase.explicit, Phase.generate, Phase.shrink) if shrinks else (Phase.generate,)
    # Those of the first kind are one call each; agents that ask agents make a dozen.
    examples = EXAMPLES // 2 if mode.endswith("+journal") or focus in ("nested", "output") else EXAMPLES

    @settings(
        # A planted fault has to be met, and the first meeting ends the search.
        max_examples=examples if shrinks else 10 * EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=phases,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large),
        report_multiple_bugs=False,
    )
    @given(scripts(mode.removesuffix("+journal"), focus))
    def holds(script: Script) -> None:
        check(script, mode)

    return holds


@pytest.mark.parametrize("mode", MODES)
def test_no_call_is_lost_doubled_or_misreported_whatever_befalls_the_run(mode: str) -> None:
    property_of(mode)()


@pytest.mark.parametrize("mode", MODES)
def test_with_a_journal_all_that_holds_and_the_run_is_told_again_as_it_was(mode: str) -> None:
    property_of(f"{mode}+journal")()


@pytest.mark.parametrize("journal", ["", "+journal"])
@pytest.mark.parametrize("focus", ["nested", "output"])
@pytest.mark.parametrize("mode", MODES)
def test_all_that_holds_for_agents_that_ask_agents_and_answers_that_are_sent_back(
    mode: str, focus: str, journal: str
) -> None:
    property_of(f"{mode}{journal}", focus=focus)()


# ---------------------------------------------------------------- planted faults


def _undo_skipped(patch: pytest.MonkeyPatch) -> None:
    close = Ledger.close
    patch.setattr(Ledger, "close", lambda self: close(self)[1:])


def _undo_doubled(patch: pytest.MonkeyPatch) -> None:
    undo, aundo = Blocking.at_once[RunUndo], Awaiting.performers[RunUndo]

    def twice(io: Any, effect: Any) -> Any:
        undo(io, effect)
        return undo(io, effect)

    async def atwice(io: Any, effect: Any) -> Any:
        await aundo(io, effect)
        return await aundo(io, effect)

    patch.setitem(Blocking.at_once, RunUndo, twice)  # type: ignore[arg-type]
    patch.setitem(Awaiting.performers, RunUndo, atwice)  # type: ignore[arg-type]


def _undo_forwards(patch: pytest.MonkeyPatch) -> None:
    close = Ledger.close
    patch.setattr(Ledger, "close", lambda self: close(self)[::-1])


def _undo_claimed(patch: pytest.MonkeyPatch) -> None:
    async def undo_entry(run: Run, entry: Any) -> Any:
        return run.mark_undo([entry.execution.key], UndoOutcome(None, 0.0))

    patch.setattr(_giveup, "undo_entry", undo_entry)


def _result_lost(patch: pytest.MonkeyPatch) -> None:
    book_round = _giveup.book_round

    def forgetful(run: Run, round_: Any) -> Any:
        executions = book_round(run, round_)
        if len(executions) > 2:
            del run.messages[-1]
        return executions

    patch.setattr(_giveup, "book_round", forgetful)
    patch.setattr(_loop, "book_round", forgetful)


def _record_lost(patch: pytest.MonkeyPatch) -> None:
    record = Run.record

    def forgetful(self: Run, execution: Any) -> Any:
        if execution.outcome is Outcome.FAILED:
            return execution, False
        return record(self, execution)

    patch.setattr(Run, "record", forgetful)


def _drain_cut_short(patch: pytest.MonkeyPatch) -> None:
    async def no_drain(io: Any, effect: Any) -> None:
        return None

    patch.setitem(Awaiting.performers, Drain, no_drain)  # type: ignore[arg-type]
    patch.setitem(Blocking.at_once, Drain, lambda io, effect: None)  # type: ignore[arg-type]


def _failure_taken_for_definite(patch: pytest.MonkeyPatch) -> None:
    async def absent(io: Any, effect: Any) -> Absent:
        return Absent()

    patch.setitem(Awaiting.performers, Offload, absent)  # type: ignore[arg-type]
    patch.setitem(Blocking.at_once, Offload, lambda io, effect: Absent())  # type: ignore[arg-type]


def _late_finisher_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Run, "finish_late", lambda self, key, result: None)


def _not_given_up(patch: pytest.MonkeyPatch) -> None:
    async def give_up(run: Run, failure: BaseException) -> None:
        run.given_up = True

    patch.setattr(_loop, "give_up", give_up)


def _end_misread(patch: pytest.MonkeyPatch) -> None:
    enter = _recorded._enter_end

    def misreading(index: Any, key: str, end: Any) -> None:
        enter(index, key, replace(end, outcome=Outcome.DONE) if end.outcome is Outcome.UNKNOWN else end)

    patch.setattr(_recorded, "_enter_end", misreading)


def _ending_not_recorded(patch: pytest.MonkeyPatch) -> None:
    async def keep_run_end(run: Run) -> None:
        return None

    patch.setattr(_giveup, "keep_run_end", keep_run_end)


def _ledger_not_shared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "part", lambda self, prefix: Ledger(prefix))


def _savepoint_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "part", lambda self, prefix: self)  # so that an agent which gives up undoes all that is done


def _agents_not_told_again(patch: pytest.MonkeyPatch) -> None:
    async def tell_again(run: Run, call: Any, key: str) -> None:
        return None

    patch.setattr(_recalling, "tell_again", tell_again)


def _any_answer_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OutputType, "read", lambda self, text, decoding: {"word": text})


def _refusals_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_output, "_spent", lambda run, plan, error: None)


MUTANTS = (
    (_undo_skipped, "", ("stream", "arun")),
    (_undo_doubled, "", ("run", "astream")),
    (_undo_forwards, "", ("run", "arun")),
    (_undo_claimed, "", ("stream", "arun")),
    (_result_lost, "", ("run", "astream")),
    (_record_lost, "failing", ("run", "astream")),
    (_drain_cut_short, "cancelled", ("stream", "arun", "astream")),
    (_failure_taken_for_definite, "failing", ("stream", "arun")),
    (_late_finisher_forgotten, "late", ("arun",)),
    (_not_given_up, "", ("stream", "astream")),
    (_end_misread, "failing", ("run+journal", "astream+journal")),
    (_ending_not_recorded, "failing", ("stream+journal", "arun+journal")),
    (_ledger_not_shared, "nested", ("run", "astream")),
    (_savepoint_ignored, "nested", ("stream", "arun")),
    (_any_answer_taken, "output", ("run", "astream")),
    (_refusals_not_counted, "output", ("stream", "arun")),
    (_agents_not_told_again, "nested", ("run+journal", "astream+journal")),
)


@pytest.mark.parametrize(
    ("mutant", "focus", "mode"),
    [pytest.param(m, focus, mode, id=f"{m.__name__[1:]}-{mode}") for m, focus, modes in MUTANTS for mode in modes],
)
def test_a_planted_fault_is_found(mutant: Callable[[pytest.MonkeyPatch], None], focus: str, mode: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        with pytest.raises(BaseException) as found:  # the finding itself, or a group of findings
            property_of(mode, focus=focus, shrinks=False)()
    assert _is_finding(found.value), found.value


def _is_finding(error: BaseException) -> bool:
    """Whether it is a broken promise, or several of them, and no accident of the test itself."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_finding(inner) for inner in error.exceptions)
    return isinstance(error, Broken)
