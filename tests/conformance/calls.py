"""The model of the reference, one call at a time: hooks, arguments, bodies, and the strategies for what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .behaviour import Planned, compact, planned
from .offering import FOUND, SEARCH, Offer, found_text
from .reading import Refused
from .story import Call, Conversation, Failed, decoded, result_fields, text_result, thrown
from .teller import Teller

__all__ = ["Calls"]


class Calls:
    """Runs the calls of one invocation, and notes what happens."""

    def __init__(self, teller: Teller, memory_id: Any, parameters: Any) -> None:
        self.teller, self.scenario, self.on = teller, teller.scenario, teller.on
        self.memory_id, self.parameters = memory_id, parameters
        self.offer = Offer(teller)
        by_exchange = "D-6" in self.on
        self.conversation = Conversation(self.scenario.window, by_exchange)
        if self.scenario.window is not None:
            self.conversation = teller.conversations.setdefault(memory_id, self.conversation)

    def _executed(self, call: Call) -> None:
        """Tell of a call of a settled round."""
        raise NotImplementedError

    def _run_tools(self, calls: Sequence[Call]) -> Failed | None:
        """Run the calls of a round; gives the first failure in request order."""
        failed: Failed | None = None
        for call in calls:
            try:
                self._run_one(call)
            except Failed as failure:
                failure.by_tool = True
                call.failure, failed = failure, failed or failure
                self._gave_up(call)
                if not self.scenario.concurrent:
                    break
            if self.scenario.streams and not self.scenario.concurrent and "D-17" not in self.on:
                self._executed(call)  # the reference tells of each call at once, and remembers its result
                self.conversation.add([(call.message(), call.key)])
        return failed

    def _gave_up(self, call: Call) -> None:
        if call.result is None:
            call.result = text_result(f"<{call.shown_name} gave the run up>", is_error=True)
            if "D-15" in self.on:
                self._after(call)

    def _run_one(self, call: Call) -> None:
        teller = self.teller
        if self.scenario.hooks:
            teller.note("before_tool", **call.fields)
        self._hook("before_hook", call)
        if "D-15" not in self.on:
            teller.callback("stream_before_tool", id=call.id, name=call.name)
        call.result = self._result_of(call)
        self._after(call)
        self._hook("after_hook", call)

    def _after(self, call: Call) -> None:
        if self.scenario.hooks:
            self.teller.note("after_tool", **call.fields, **result_fields(call.shown))
        if self.scenario.concurrent and "D-17" not in self.on:
            self.teller.callback("stream_tool_executed", **call.fields, **result_fields(call.shown))

    def _hook(self, which: str, call: Call) -> None:
        does = self.teller.config.get(which)
        if does and does.get("tool", call.name) == call.name and "throw" in does:
            raise Failed(does["throw"])

    def _result_of(self, call: Call) -> dict[str, Any]:
        teller = self.teller
        if self.offer.has_search and call.name == SEARCH:
            return self._searched(call)
        tool = self.offer.known.get(call.name)
        if tool is None:
            return self._unknown_name(call)
        arguments: dict[str, Any] = {}
        if tool["kind"] == "method":
            problem, arguments = decoded(tool, call.arguments, self.memory_id, self.parameters, self.on)
            if problem == "<arguments are null>":
                raise Failed(thrown(problem))  # nobody handles that in the reference
            if problem is not None:
                return self._handled("arguments", call, thrown(problem), thrown(problem))
        if "D-15" in self.on:  # the callback says that a body starts, so a refused call has none
            teller.callback("stream_before_tool", id=call.id, name=call.name)
        if tool["kind"] == "method":
            teller.note("tool_invoked", tool=call.name, args=arguments)
        else:
            teller.note("tool_invoked", tool=call.name, raw_arguments=call.arguments)
        number = teller.counts[call.name] = teller.counts.get(call.name, 0) + 1
        plan = planned(tool, number, arguments if tool["kind"] == "method" else call.arguments)
        call.slow = plan.sleep > 0.1
        call.tool, call.decoded = tool, arguments
        return self._body(call, tool, plan)

    def _searched(self, call: Call) -> dict[str, Any]:
        if "D-15" in self.on:
            self.teller.callback("stream_before_tool", id=call.id, name=call.name)
        try:
            found = self.offer.find(call.arguments)
        except Refused:
            problem = thrown("<arguments do not fit>")
            kind = "arguments" if self.teller.config["tool_search"].get("throw_arguments_exceptions") else "execution"
            return self._handled(kind, call, problem, problem)
        return text_result(found_text(found), value={}, attributes={FOUND: found})

    def _body(self, call: Call, tool: Mapping[str, Any], plan: Planned) -> dict[str, Any]:
        match plan.kind:
            case "throw":
                return self._thrown(call, tool, plan.value)
            case "error_result":
                return text_result(plan.value, is_error=True)
            case "contents":
                contents = plan.value
                value = contents[0] if tool.get("returns") in ("image", "content") else contents
                return {"contents": contents, "is_error": False, "object": value, "attributes": plan.attributes}
            case "cyclic":
                return self._unshowable(call)
            case "null" if tool["kind"] != "method":
                if "D-13" not in self.on:
                    return {"contents": [], "is_error": False, "object": None, "attributes": {}}
                return text_result("Success")
            case "null":
                return text_result("Success" if tool.get("returns") == "void" else "null")
            case _:
                text = plan.value if plan.kind == "text" else compact(plan.value)
                return text_result(text, value=plan.value, attributes=plan.attributes)

    def _unshowable(self, call: Call) -> dict[str, Any]:
        shown = text_result("", value="<SelfRef>")
        if "D-13" not in self.on:
            return shown | {"text_error": thrown("<result cannot be shown>")}
        error = thrown("<result cannot be shown>")
        if not self.teller.config.get("execution_error_handler"):
            return shown | {"contents": [{"text": f"<result of {call.name} cannot be shown>"}], "is_error": True}
        return self._handled("execution", call, error, error) | {"object": "<SelfRef>"}

    def _thrown(self, call: Call, tool: Mapping[str, Any], error: Mapping[str, Any]) -> dict[str, Any]:
        by_method = tool["kind"] == "method"
        name = error["class"]
        if not by_method and name.endswith("Error") and "D-34" not in self.on:
            # The reference catches exceptions alone, and tells nobody, unless a future has wrapped the error.
            raise Failed(error, silent=not self.scenario.concurrent and not self.scenario.streams)
        kind = "arguments" if name == "ToolArgumentsException" and not by_method else "execution"
        if "D-35" in self.on:
            return self._handled(kind, call, error, error)
        if by_method:
            raw = {"class": "ToolExecutionException", "message": error.get("message"), "cause": error}
            return self._handled(kind, call, error, raw)
        cause = error.get("cause")
        if cause is None and name in ("ToolArgumentsException", "ToolExecutionException"):
            cause = {"class": "RuntimeException", "message": error.get("message")}
        return self._handled(kind, call, cause or error, error if cause is None else {**error, "cause": cause})

    # ------------------------------------------------------------ strategies

    def _handled(self, kind: str, call: Call, error: Mapping[str, Any], raw: Mapping[str, Any]) -> dict[str, Any]:
        does = self.teller.config.get(f"{kind}_error_handler")
        if not does:
            if kind == "arguments":
                raise Failed(error)
            message = str(error.get("message") or "")
            return text_result(message if message.strip() else f"<failed with {error['class']}>", is_error=True)
        self.teller.note(f"{kind}_error_handler", tool=call.name, id=call.id, error=dict(error), raw_error=dict(raw))
        if "throw" in does:
            raise Failed(does["throw"])
        if does.get("rethrow"):
            raise Failed(error)
        if "prefix" in does:
            message = error.get("message")
            return text_result(does["prefix"] + ("null" if message is None else message), is_error=True)
        if does.get("text") is None:
            raise Failed(thrown("<a handler gave nothing>"))
        return text_result(does["text"], is_error=True)

    def _unknown_name(self, call: Call) -> dict[str, Any]:
        does = self.teller.config.get("hallucinated")
        if not does:
            raise Failed(thrown(f"<no tool {call.name or ''}>"))
        if does.get("return_null"):
            raise Failed(thrown("<a handler gave nothing>"))
        text = does["text"].replace("{name}", call.name or "null")
        if "D-24" not in self.on:
            return text_result(text)
        is_error = does.get("is_error")
        return text_result(text, is_error=True if is_error is None else is_error, attributes=does.get("attributes"))
