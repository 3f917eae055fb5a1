"""What a scenario must give: a small model of the reference in which each deviation of ours is a switch.

With every switch off it says again what was recorded of the reference, which the runner checks; with all of them on
it says what we promise. So a deviation is a rule with a defined effect on any scenario, also on one never seen before.
It knows nothing of the engine: it works on the words of the recordings alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .calls import Calls
from .outputs import FORM, Misfit, Unclear, answered, has_form, is_typed, is_wrapper, returned
from .scenario import Scenario
from .story import (
    CHECKED,
    Call,
    Failed,
    add_usage,
    ai,
    configuration_problem,
    result_fields,
    same_request,
    text_result,
    thrown,
    usage_of,
)
from .teller import Teller

__all__ = ["promise"]


def promise(scenario: Scenario, on: frozenset[str]) -> dict[str, Any]:
    """Trace, outcomes and memories of the scenario, with these deviations in force."""
    problem = configuration_problem(scenario, on)
    if problem is not None:
        outcome = {"stage": "build", "threw": thrown("<configuration error>")}
        story: dict[str, Any] = {"model_calls": 0, "trace": [], "outcomes": [outcome]}
        return story | ({"memory_after": {}} if scenario.window is not None else {})
    teller = Teller(scenario, on)
    outcomes = [_call(teller, call) for call in scenario.calls]
    story = {"model_calls": teller.requests, "trace": teller.trace + teller.late, "outcomes": outcomes}
    if scenario.window is not None:
        story["memory_after"] = {str(key): each.view() for key, each in teller.conversations.items()}
    return story


def _call(teller: Teller, call: Mapping[str, Any]) -> dict[str, Any]:
    run = _Run(teller, call)
    teller.listen("Started")
    try:
        outcome = run.tell()
    except Failed as failure:
        outcome = run.given_up(failure)
    teller.note("call_end")
    return {"stage": "call", **outcome}


class _Run(Calls):
    """One invocation."""

    def __init__(self, teller: Teller, call: Mapping[str, Any]) -> None:
        memory_id = call.get("memory_id")
        memory_id = "default" if memory_id is None else memory_id
        super().__init__(teller, memory_id, call.get("invocation_params"))
        form = FORM if has_form(self.scenario.return_type) else ""
        system = (teller.config.get("system") or "") + (form if "17.10" in self.on else "")
        if system:
            self.conversation.add_system(system)
        self.user = call["user"] + ("" if "17.10" in self.on else form)
        question = {"role": "user", "text": self.user}
        self.first: list[dict[str, Any]] | None = None
        if "D-30" not in self.on:  # the reference does not look into the window again for its first request
            self.first = [*self.conversation.view(), question]
        self.conversation.add([(question, None)])
        self.executions: list[dict[str, Any]] = []
        self.intermediate: list[dict[str, Any]] = []
        self.ledger: list[Call] = []
        self.usage: list[Any] | None = None
        self.rounds = 0
        self.replies = 0
        self.open: list[Call] = []
        self.last: list[Call] = []
        self.reply: dict[str, Any] = {}

    def tell(self) -> dict[str, Any]:
        while True:
            entry = self._ask()
            calls = [Call(self.replies, position, call) for position, call in enumerate(entry.get("tool_calls") or [])]
            early = self._starts_early(entry, calls)
            failed = self._run_tools(calls) if early else None
            self.teller.listen("ResponseReceived")
            self.usage = add_usage(self.usage, entry.get("usage"))
            self.reply = {"entry": entry, "message": ai(entry)}
            self._check_limit(calls)
            if not calls:
                self.conversation.add([(self.reply["message"], None)])
                return self._finished("STOP")
            self.open = self.last = calls
            self._remember_reply()
            self.rounds += 1
            self.teller.callback(
                "stream_intermediate", message=self.reply["message"], usage=usage_of(entry.get("usage"))
            )
            lost = self._loses_calls(entry)
            if not early and not lost:
                failed = self._run_tools(calls)
            if failed is not None:
                self._tell_until(failed, calls)
            if self._settle([] if lost else calls):
                return self._finished("TOOL_EXECUTION")
            self.intermediate.append(self.reply["message"])

    def _ask(self) -> dict[str, Any]:
        teller, messages = self.teller, self.first or self.conversation.view()
        self.first = None
        if not messages:
            raise Failed(thrown("<no messages to send>"))
        self.offer.prepare(self.user, messages)
        teller.listen("RequestIssued")
        teller.requests += 1
        teller.note("model_request", n=teller.requests, tools=list(self.offer.shown), messages=messages)
        entry = self.scenario.reply(teller.requests - 1) or {"error": thrown("<script ended>")}
        for word in (entry.get("text") or "").replace(" ", " \0").split("\0"):
            if word:
                teller.callback("stream_partial", text=word)
        if entry.get("error"):
            raise Failed(entry["error"])
        self.replies += 1
        return entry

    def _starts_early(self, entry: Mapping[str, Any], calls: Sequence[Call]) -> bool:
        # A stream of the reference with an executor starts a call as soon as it is complete.
        wants = self.scenario.streams and self.scenario.concurrent and bool(calls)
        allowed = "D-38" not in self.on or self.rounds < self.teller.limit
        return wants and allowed and not entry.get("no_complete_tool_call_events")

    def _loses_calls(self, entry: Mapping[str, Any]) -> bool:
        # The reference then waits for signals that never come, and goes on without results (D-17).
        silent = bool(entry.get("no_complete_tool_call_events"))
        return silent and self.scenario.streams and self.scenario.concurrent and "D-17" not in self.on

    def _check_limit(self, calls: Sequence[Call]) -> None:
        limit = self.teller.limit
        if self.scenario.streams or "D-1" in self.on:
            reached = bool(calls) and self.rounds >= limit
        else:  # the reference counts replies, and refuses even a last answer
            reached = self.replies > limit
        if not reached:
            return
        if calls and (self.scenario.streams or "D-2" in self.on):
            self.open = list(calls)
            self._remember_reply()
        raise Failed(thrown(f"<limit of {limit} rounds>"))

    def _remember_reply(self) -> None:
        if "D-2" not in self.on:  # otherwise it is remembered together with its results
            self.conversation.add([(self.reply["message"], None)])

    # ------------------------------------------------------------ when a round has settled

    def _settle(self, calls: list[Call]) -> bool:
        if "D-5" not in self.on and not self.scenario.streams:
            self._join_by_request(calls)
        told_already = self.scenario.streams and not self.scenario.concurrent and "D-17" not in self.on
        if not told_already:
            for call in calls:
                self._executed(call)
        failed = [call for call in calls if call.shown["is_error"]]
        self._enter(calls)
        if failed and self.scenario.compensates and (not self.scenario.streams or "D-29" in self.on):
            self._undo_all(calls, f"{failed[0].name} failed")
        self._remember_results([] if told_already else calls)
        self.open = []
        self.offer.settled(calls)
        behaviors = [self.offer.known.get(call.name, {}).get("returnBehavior", "TO_LLM") for call in calls]
        if failed or not calls:
            return False
        return behaviors[-1] == "IMMEDIATE_IF_LAST" or "TO_LLM" not in behaviors

    def _join_by_request(self, calls: Sequence[Call]) -> None:
        for call in calls:
            last = [other for other in calls if same_request(call, other)][-1]
            if last is not call:
                call.joined = last.result
                if call.slow:  # nobody waits for it any more
                    self._move_to_the_end(call)

    def _tell_until(self, failed: Failed, calls: Sequence[Call]) -> None:
        """Raise the failure; a stream of the reference tells of the calls before it first, and remembers them."""
        if self.scenario.streams and self.scenario.concurrent and "D-17" not in self.on:
            for call in calls:
                if call.failure is not None:
                    break
                self._executed(call)
                self.conversation.add([(call.message(), call.key)])
        raise failed

    def _move_to_the_end(self, call: Call) -> None:
        teller = self.teller
        event = {"ev": "after_tool", **call.fields, **result_fields(call.result or {})}
        if event in teller.trace:
            teller.trace.remove(event)
            teller.late.append(event)

    def _executed(self, call: Call) -> None:
        shown = call.shown
        if "text_error" in shown:
            raise Failed(shown["text_error"])
        if not shown["contents"]:
            raise Failed(thrown("<a result without contents>"))
        call.told = True
        self.executions.append({**call.fields, **result_fields(shown)})
        if not self.scenario.concurrent or "D-17" in self.on:
            self.teller.callback("stream_tool_executed", **call.fields, **result_fields(shown))
        self.teller.listen("ToolExecuted", id=call.id, name=call.name, result=shown["contents"])

    def _remember_results(self, calls: Sequence[Call]) -> None:
        batch = [(call.message(), call.key) for call in calls]
        if "D-2" in self.on:
            batch = [(self.reply["message"], None), *batch]
        if "D-6" in self.on:
            self.conversation.add(batch)
        else:
            for entry in batch:
                self.conversation.add([entry])

    # ------------------------------------------------------------ undoing

    def _enter(self, calls: Sequence[Call]) -> None:
        for call in calls:
            if call.result is not None and not call.shown["is_error"] and call.name in self.teller.undos:
                self.ledger.append(call)

    def _undo_all(self, current: Sequence[Call], why: str) -> None:
        undone, self.ledger = self.ledger, []
        for call in reversed(undone):
            self._undo(call)
        for call in undone:
            call.undone = self._told_of(call, why)
        earlier = [call for call in undone if call not in current]
        if "D-5" in self.on:
            for call in earlier:
                self.conversation.replace(call.key, call.message())
            return
        for call in earlier:
            if not self.conversation.replace_by_id(call.id, call.message()):
                raise Failed(thrown("<a result without an id>"))

    def _undo(self, call: Call) -> None:
        wanted = self.teller.undos[call.name]
        fields: dict[str, Any] = {"args": call.decoded}
        if wanted["style"] == "tool_execution":
            value = (call.result or {}).get("object")
            fields = {"id": call.id, "arguments": call.arguments, "result": value}
        self.teller.note("compensate", tool=call.name, style=wanted["style"], **fields)

    def _told_of(self, call: Call, why: str) -> str:
        fails = "throw" in (self.teller.undos[call.name].get("behaviour") or {})
        return f"<{call.name} not undone>" if fails and "D-27" in self.on else f"<{call.name} undone: {why}>"

    # ------------------------------------------------------------ the two ends

    def _finished(self, reason: str) -> dict[str, Any]:
        teller, entry = self.teller, self.reply["entry"]
        output = self._output(reason)
        teller.listen("Completed")
        usage = usage_of(self.usage)
        teller.callback("stream_complete", message=self.reply["message"], usage=usage, finish_reason=reason)
        if self.scenario.streams:
            self._completion_handler()
            return {"stream_finished": True}
        if not is_wrapper(self.scenario.return_type):
            return {"returned_void": True} if self.scenario.return_type == "void" else {"returned": output}
        return {
            "result": {
                "content": output,
                "token_usage": usage,
                "finish_reason": reason,
                "tool_executions": self.executions,
                "intermediate_responses": self.intermediate,
                "final_response": self.reply["message"],
                "final_response_usage": usage_of(entry.get("usage")),
            }
        }

    def _output(self, reason: str) -> Any:
        return_type = self.scenario.return_type
        if is_wrapper(return_type) and reason == "TOOL_EXECUTION":
            return None
        if not is_typed(return_type):
            return self.reply["entry"].get("text")
        try:
            if reason != "TOOL_EXECUTION":
                return answered(return_type, self.reply["entry"].get("text"))
            tools = [self.teller.tools.get(call.name, {}) for call in self.last]
            return returned(return_type, tools, [call.shown["object"] for call in self.last])
        except Misfit as misfit:
            raise Failed(thrown("<the answer does not fit>")) from misfit
        except Unclear as unclear:
            raise Failed(thrown("<configuration error>")) from unclear

    def _completion_handler(self) -> None:
        throws = self.teller.config.get("complete_handler_throw")
        if throws:
            if "D-18" not in self.on:  # a run ends in one way: it has completed already
                self._tell_error(throws)
            elif self._has_error_callback:
                self.teller.note("stream_error", error=throws)

    @property
    def _has_error_callback(self) -> bool:
        return not (self.teller.config.get("stream_skip") or {}).get("on_error")

    def _tell_error(self, error: Mapping[str, Any]) -> None:
        if self._has_error_callback or "D-18" in self.on:
            self.teller.listen("Error", error=dict(error))
        if self.scenario.streams and self._has_error_callback:
            self.teller.note("stream_error", error=dict(error))

    def given_up(self, failure: Failed) -> dict[str, Any]:
        if "D-7" in self.on:
            self._settle_given_up()
        if "D-2" in self.on and self.open:
            self._fill()
            self._remember_results(self.open)
        error = self._as_surfaced(failure)
        if not failure.silent:
            self._tell_error(error)
        if self.scenario.streams:
            return {"stream_finished": self._has_error_callback}
        if self._is_wrapped(error):
            return {"threw": {"class": "UndeclaredThrowableException", "message": None, "cause": dict(error)}}
        return {"threw": dict(error)}

    def _is_wrapped(self, error: Mapping[str, Any]) -> bool:
        # Exceptions that must be declared go through the reference's proxies and futures inside another one.
        return error["class"] in CHECKED and "D-35" not in self.on

    def _as_surfaced(self, failure: Failed) -> Mapping[str, Any]:
        error, cause = failure.error, failure.error
        in_future = self.scenario.concurrent and not self.scenario.streams and failure.by_tool
        if in_future and (self._is_wrapped(error) or (error["class"].endswith("Error") and "D-35" not in self.on)):
            return {"class": "RuntimeException", "message": f"<{error['class']}: {error['message']}>", "cause": cause}
        return error

    def _fill(self) -> None:
        for call in self.open:
            if call.result is not None and ("text_error" in call.shown or not call.shown["contents"]):
                call.result = text_result(f"<{call.shown_name} gave the run up>", is_error=True)
            if call.result is None:
                call.result = text_result(f"<{call.shown_name} not run>", is_error=True)

    def _settle_given_up(self) -> None:
        self._fill()
        for call in self.open:
            if not call.told:
                self._executed(call)
        self._enter([call for call in self.open if call not in self.ledger])
        failed = [call for call in self.open if call.shown["is_error"]]
        if self.scenario.compensates:
            ran = bool(failed) and any(call.failure for call in self.open)
            self._undo_all(self.open, f"{failed[0].name} failed" if ran else "given up")
