"""The answer of a type: how the model is made to give it, what is sent back, and what stands beside it (spec 17.10)."""

from __future__ import annotations

import asyncio
import datetime
import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import attrs
import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict

from surehand import (
    Agent,
    ArgumentRepaired,
    AssistantMessage,
    ChatParameters,
    FinishReason,
    Limits,
    LimitWarning,
    Message,
    MessageWindow,
    Outcome,
    OutputError,
    ReturnBehavior,
    RoundLimitError,
    RunCancelled,
    RunFinished,
    SystemMessage,
    ToolChoice,
    ToolError,
    ToolStarted,
    UndoPolicy,
    UserError,
    UserMessage,
    report_of,
    tool,
    undo_on_any_error,
)
from surehand.messages import ChatResponse, ResponseDone, ResponseFormat, TextPiece, ToolCallPiece
from surehand.testing import ScriptedModel, call, calls, say

from .modes import Ended, Mode, answer_of, ask
from .shop import Shop, book, undone


@dataclass
class Trip:
    """Where to, and for how long."""

    city: str
    days: int


ROME = Trip("Rome", 3)
GOOD, BAD = '{"city": "Rome", "days": 3}', '{"city": "Rome", "days": "many"}'
WRONG = 'days: not convertible: expected an integer, received the text "many". Expected {city: string, days: integer}.'
SCHEMA = {
    "additionalProperties": False,
    "description": "Where to, and for how long.",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "type": "object",
}


def final(arguments: str = GOOD, id: str | None = "f") -> Any:
    return call("final_answer", arguments, id=id)


def sent_back(*, how: str) -> UserMessage:
    return UserMessage.of(f"Your answer cannot be used. The contents of your answer do not fit: {WRONG} {how}.")


def conversation(ended: Ended) -> list[Message]:
    """What the run has added to it, after the user's message."""
    assert ended.result is not None
    return list(ended.result.messages[1:])


def model_that_knows_schemas(*replies: Any) -> ScriptedModel:
    model = ScriptedModel(replies)
    model.supports_json_schema = True
    return model


# ---------------------------------------------------------------- three ways


@pytest.mark.parametrize("form", ["schema", "text"])
def test_an_answer_in_words_is_read_as_the_type(mode: Mode, form: str) -> None:
    ended = mode.play(say(GOOD), output=Trip, output_mode=form)
    assert ended.result is not None
    assert (ended.result.output, ended.result.immediate) == (ROME, False)
    assert conversation(ended) == [AssistantMessage(GOOD)]
    assert [event.output for event in ended.of(RunFinished)] == [ROME]


def test_an_answer_as_a_call_is_read_as_the_type(mode: Mode) -> None:
    ended = mode.play(ask(final()), output=Trip)
    assert ended.result is not None
    assert (ended.result.output, ended.result.immediate) == (ROME, False)
    assert ended.result.finish_reason is FinishReason.TOOL_EXECUTION
    assert conversation(ended) == [
        AssistantMessage(None, (final(),)),
        answer_of(final(), "The final answer was taken."),
    ]
    assert [(e.key, e.outcome, e.value) for e in ended.result.executions] == [("1.0", Outcome.DONE, ROME)]
    assert [event.output for event in ended.of(RunFinished)] == [ROME]
    assert ended.of(ToolStarted) == []


def test_the_schema_is_sent_as_the_response_format() -> None:
    model = model_that_knows_schemas(say(GOOD))
    assert Agent(model, output=Trip, instructions="Plan.").run("Go").output == ROME
    (request,) = model.requests
    assert request.parameters.response_format == ResponseFormat("json", SCHEMA, "answer")
    assert (request.tools, request.messages[0]) == ((), SystemMessage("Plan."))


def test_a_model_without_schemas_is_shown_a_tool_that_it_must_call() -> None:
    model = ScriptedModel([ask(call("look")), ask(final())])
    assert Agent(model, output=Trip, tools=[look]).run("Go").output == ROME
    assert [spec.name for spec in model.requests[0].tools] == ["look", "final_answer"]
    assert model.requests[0].tools[1].parameters == SCHEMA
    # Also after the first round: here a forced choice ends the run.
    assert [request.parameters.tool_choice for request in model.requests] == [ToolChoice.REQUIRED] * 2


def test_where_text_is_an_answer_too_no_call_is_forced() -> None:
    model = ScriptedModel([say("I do not know.")])
    assert Agent[Any, Trip | str](model, output=Trip | str).run("Go").output == "I do not know."
    assert not model.requests[0].parameters.tool_choice


def test_instructions_hold_the_schema() -> None:
    model = ScriptedModel([say(GOOD)])
    Agent(model, output=Trip, output_mode="text", instructions="Plan.").run("Go")
    (request,) = model.requests
    system = request.messages[0]
    assert isinstance(system, SystemMessage)
    assert system.text.startswith("Plan.\n\nGive your final answer as JSON alone, that fits this JSON schema: {")
    assert '"required": ["city", "days"]' in system.text
    assert not request.tools and not request.parameters.response_format


def test_without_a_type_nothing_is_added_to_the_request() -> None:
    model = model_that_knows_schemas(say("Hello"))
    assert Agent(model).run("Go").output == "Hello"
    assert (len(model.requests[0].messages), model.requests[0].tools) == (1, ())
    assert not model.requests[0].parameters.response_format


@pytest.mark.parametrize(("hint", "output"), [(str, "done"), (None, None)])
def test_text_and_nothing_need_no_form(mode: Mode, hint: Any, output: Any) -> None:
    ended = mode.play(say("done"), output=hint)
    assert ended.result is not None
    assert ended.result.output == output
    assert (len(ended.requests[0].messages), ended.requests[0].tools) == (1, ())


# ---------------------------------------------------------------- types


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Model(pydantic.BaseModel):
    start: int
    end: int

    @pydantic.model_validator(mode="after")
    def _in_order(self) -> Model:
        if self.end < self.start:
            raise ValueError("it ends before it starts")
        return self


class Record(msgspec.Struct):
    a: int
    inner: Record | None = None


@attrs.define
class Point:
    x: float


class Keys(TypedDict):
    a: int


Bounded = Annotated[int, pydantic.Field(ge=1, le=5)]


@pytest.mark.parametrize(
    ("hint", "text", "output"),
    [
        (Model, '{"start": 1, "end": 2}', Model(start=1, end=2)),
        (Record, '{"a": 1, "inner": {"a": 2}}', Record(1, Record(2))),
        (Point, '{"x": 1.5}', Point(1.5)),
        (Keys, '{"a": "1"}', {"a": 1}),
        (dict[str, int], '{"x": 1}', {"x": 1}),
        (list[Trip], f'{{"result": [{GOOD}]}}', [ROME]),
        (int, '{"result": 4}', 4),
        (bool, '{"result": true}', True),
        (float, '{"result": 4}', 4.0),
        (Level, '{"result": "low"}', Level.LOW),
        (Literal["a", "b"], '{"result": "b"}', "b"),
        (datetime.date, '{"result": "2031-05-03"}', datetime.date(2031, 5, 3)),
        (Trip | Keys, '{"result": {"a": 1}}', {"a": 1}),
        (Trip | None, '{"result": null}', None),
        (Bounded, '{"result": 5}', 5),
        (Any, '{"result": [1, "x"]}', [1, "x"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("output_mode", ["schema", "tool", "text"])
def test_any_type_that_pydantic_knows_can_be_asked_for(hint: Any, text: str, output: Any, output_mode: Any) -> None:
    reply = ask(final(text)) if output_mode == "tool" else say(text)
    result = Agent[Any, Any](ScriptedModel([reply]), output=hint, output_mode=output_mode).run("Go")
    assert (result.output, type(result.output)) == (output, type(output))


@pytest.mark.parametrize(
    ("hint", "text", "output"),
    [
        (Trip, f"```json\n{GOOD}\n```", ROME),
        (Trip, f"Here you are: {GOOD} Have fun!", ROME),
        (dict[str, int], '```\n{"x": 1}\n```', {"x": 1}),
        (list[int], "[1, 2]", [1, 2]),
        (list[int], "```json\n[1, 2]\n```", [1, 2]),
        (list[int], 'Sure: {"result": [1, 2]}', [1, 2]),
        (int, " 42\n", 42),
        (bool, "true", True),
        (Level, "low", Level.LOW),
        (Level, '"low"', Level.LOW),
        (datetime.date, "2031-05-03", datetime.date(2031, 5, 3)),
        (Trip | Keys, '{"a": 1}', {"a": 1}),
        (Trip | None, "null", None),
        (Trip | str, "Nowhere, then.", "Nowhere, then."),
        (Trip | str, GOOD, ROME),
    ],
    ids=str,
)
def test_what_a_model_says_without_the_form_is_read_where_it_is_clear(hint: Any, text: str, output: Any) -> None:
    assert Agent[Any, Any](ScriptedModel([say(text)]), output=hint, output_mode="text").run("Go").output == output


@pytest.mark.parametrize(
    ("hint", "text", "why"),
    [
        (Trip, "", "are not a JSON object: it is empty"),
        (Trip, "null", "are not a JSON object: it is empty"),
        (Trip, "Rome", 'it begins with "Rome"'),
        (Trip, '{"city": "Rome", "days"', "it ends too early, as if cut off"),
        (Trip, "[1]", "expected a JSON object, received an array of 1"),
        (Model, '{"start": 2, "end": 1}', "it ends before it starts"),
        (int, "forty two", 'it begins with "forty two"'),
        (int, '{"result": 4.5}', "result: non-integer value: expected an integer, received the number 4.5"),
        (int, "4.5", "expected a JSON object, received the number 4.5"),
        (Bounded, '{"result": 6}', "result: out of range: expected at most 5, received the number 6"),
        (Trip | str, '{"city": "Rome"', "it ends too early, as if cut off"),
        (Literal["a"], "c", 'it begins with "c"'),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_in_the_words_of_arguments(hint: Any, text: str, why: str) -> None:
    agent = Agent[Any, Any](ScriptedModel([say(text)]), output=hint, output_mode="text", output_retries=0)
    with pytest.raises(OutputError) as refused:
        agent.run("Go")
    assert why in str(refused.value)


def test_a_strict_agent_takes_nothing_but_the_form() -> None:
    agent = Agent(ScriptedModel([say("42")]), output=int, output_mode="text", output_retries=0, decoding="strict")
    with pytest.raises(OutputError):
        agent.run("Go")


def test_repairs_of_an_answer_as_a_call_are_told(mode: Mode) -> None:
    ended = mode.play(ask(final('{"city": "Rome", "days": "3"}')), output=Trip)
    assert [(event.repair.path, event.repair.after) for event in ended.of(ArgumentRepaired)] == [("days", 3)]


@pytest.mark.parametrize("hint", [object(), lambda: None, type], ids=["object", "function", "type"])
def test_what_is_no_type_that_a_model_can_give_is_refused(hint: Any) -> None:
    with pytest.raises(UserError, match=r"output=.*the answer"):
        Agent(ScriptedModel([]), output=hint)


# ---------------------------------------------------------------- sent back


@pytest.mark.parametrize("form", ["schema", "text"])
def test_words_that_do_not_fit_are_sent_back_with_what_is_wrong(mode: Mode, form: str) -> None:
    memory = MessageWindow(20)
    ended = mode.play(say(BAD), say(GOOD), output=Trip, output_mode=form, memory=memory)
    assert ended.result is not None
    assert ended.result.output == ROME
    expected = [AssistantMessage(BAD), sent_back(how="Answer again, with JSON alone"), AssistantMessage(GOOD)]
    assert conversation(ended) == expected
    assert memory.messages()[-3:] == expected
    assert [response.message for response in ended.result.intermediate] == [AssistantMessage(BAD)]
    assert list(ended.requests[1].messages[-2:]) == expected[:2]


def test_a_call_that_does_not_fit_is_answered_with_what_is_wrong(mode: Mode) -> None:
    memory = MessageWindow(20)
    ended = mode.play(ask(final(BAD, "1")), ask(final(GOOD, "2")), output=Trip, memory=memory)
    assert ended.result is not None
    assert ended.result.output == ROME
    expected = [
        AssistantMessage(None, (final(BAD, "1"),)),
        answer_of(final(BAD, "1"), f"The arguments of 'final_answer' do not fit: {WRONG}", is_error=True),
        AssistantMessage(None, (final(GOOD, "2"),)),
        answer_of(final(GOOD, "2"), "The final answer was taken."),
    ]
    assert conversation(ended) == expected
    assert memory.messages()[-4:] == expected
    assert [e.outcome for e in ended.result.executions] == [Outcome.REJECTED, Outcome.DONE]


def test_words_where_a_call_is_wanted_are_taken_if_they_fit(mode: Mode) -> None:
    ended = mode.play(say(GOOD), output=Trip)
    assert ended.result is not None
    assert (ended.result.output, conversation(ended)) == (ROME, [AssistantMessage(GOOD)])


def test_words_where_a_call_is_wanted_are_sent_back_with_the_name_of_the_tool(mode: Mode) -> None:
    ended = mode.play(say(BAD), ask(final()), output=Trip)
    assert ended.result is not None
    assert ended.result.output == ROME
    assert conversation(ended)[1] == sent_back(how="Call 'final_answer' to give it")


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_after_so_many_retries_the_run_is_given_up_and_undone(mode: Mode, retries: int) -> None:
    shop, refused = Shop(), [say(BAD), ask(final(BAD)), say(BAD)]
    ended = mode.play(ask(book("a")), *refused, output=Trip, output_retries=retries, tools=[shop])
    assert isinstance(ended.error, OutputError)
    assert f"refused {retries + 1} times" in str(ended.error)
    assert f"Agent(output_retries={retries})" in str(ended.error)
    assert len(ended.requests) == 2 + retries
    assert shop.log == ["book a", "cancel booked a"]
    assert undone(ended) == [("booked a", None)]


@pytest.mark.parametrize("reply", [say(BAD), ask(final(BAD))], ids=["words", "call"])
def test_history_is_whole_after_giving_up(mode: Mode, reply: ChatResponse) -> None:
    memory = MessageWindow(20)
    ended = mode.play(reply, output=Trip, output_retries=0, memory=memory)
    report = report_of(ended.error) if ended.error is not None else None
    assert report is not None
    assert list(report.messages) == memory.messages()
    asked = [one for message in report.messages if isinstance(message, AssistantMessage) for one in message.tool_calls]
    assert len(report.messages) == 2 + len(asked)


def test_refused_answers_are_no_failures_of_tools(mode: Mode) -> None:
    heard: list[Any] = []
    shop = Shop()
    ended = mode.play(
        ask(book("a")),
        *[ask(final(BAD))] * 6,
        ask(final()),
        output=Trip,
        output_retries=6,
        tools=[shop],
        undo=UndoPolicy.ON_TOOL_ERROR,
        undo_when=undo_on_any_error,
        on_tool_error=heard.append,
        limits=Limits(consecutive_errors=2, rounds=1, calls=1),
    )
    assert ended.result is not None
    assert (ended.result.output, shop.log, heard) == (ROME, ["book a"], [])


def test_an_answer_that_was_cut_off_gets_more_room(mode: Mode) -> None:
    cut = ChatResponse(AssistantMessage('{"city": "Ro'), None, FinishReason.LENGTH)
    ended = mode.play(
        cut, say(GOOD), output=Trip, output_mode="text", chat_parameters=ChatParameters(max_output_tokens=10)
    )
    assert ended.result is not None
    assert ended.result.output == ROME
    assert [request.parameters.max_output_tokens for request in ended.requests] == [10, 20]


# ---------------------------------------------------------------- beside other calls


@tool
def send_sms() -> str:
    """Send it."""
    return "sent"


@tool
def refuse() -> str:
    """Never works."""
    raise ToolError("no")


@tool(repeat="safe")
def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize("first", [True, False], ids=["answer first", "answer last"])
def test_PAR_14_a_call_beside_the_final_answer_is_run_before_it_is_taken(mode: Mode, first: bool) -> None:
    sms = call("send_sms", id="s")
    asked = (final(), sms) if first else (sms, final())
    ended = mode.play(ask(*asked), output=Trip, tools=[send_sms])
    assert ended.result is not None
    assert ended.result.output == ROME
    assert {e.call.name: (e.outcome, e.value) for e in ended.result.executions} == {
        "final_answer": (Outcome.DONE, ROME),
        "send_sms": (Outcome.DONE, "sent"),
    }
    assert [event.text for event in ended.of(LimitWarning)] == [
        "the model gave its final answer beside calls of ['send_sms']: they are run first"
    ]
    texts = {final(): "The final answer was taken.", sms: "sent"}
    assert conversation(ended) == [AssistantMessage(None, asked), *(answer_of(one, texts[one]) for one in asked)]


@pytest.mark.parametrize("first", [True, False], ids=["answer first", "answer last"])
def test_PAR_14_or_it_is_not_run_and_told_so(mode: Mode, first: bool) -> None:
    sms = call("send_sms", id="s")
    asked = (final(), sms) if first else (sms, final())
    ended = mode.play(ask(*asked), output=Trip, tools=[send_sms], beside_output="skip")
    assert ended.result is not None
    assert ended.result.output == ROME
    assert {e.call.name: e.outcome for e in ended.result.executions} == {
        "final_answer": Outcome.DONE,
        "send_sms": Outcome.NOT_RUN,
    }
    assert [event.text for event in ended.of(LimitWarning)] == [
        "the model gave its final answer beside calls of ['send_sms']: calls that have not begun are not run"
    ]
    why = answer_of(sms, "This call was not run, since it was asked for beside a final answer.", is_error=True)
    assert why in conversation(ended)
    assert ended.of(ToolStarted) == []


def test_what_was_left_out_beside_an_answer_that_was_refused_can_be_asked_for_again(mode: Mode) -> None:
    sms = call("send_sms", id="s")
    ended = mode.play(ask(sms, final(BAD)), ask(sms), ask(final()), output=Trip, tools=[send_sms], beside_output="skip")
    assert ended.result is not None
    assert ended.result.output == ROME
    outcomes = [e.outcome for e in ended.result.executions]
    assert outcomes == [Outcome.NOT_RUN, Outcome.REJECTED, Outcome.DONE, Outcome.DONE]


def test_an_answer_does_not_stand_if_a_call_beside_it_fails(mode: Mode) -> None:
    refused = call("refuse", id="r")
    ended = mode.play(ask(final(), refused), ask(final()), output=Trip, output_retries=0, tools=[refuse])
    assert ended.result is not None
    assert ended.result.output == ROME
    assert [(e.call.name, e.outcome) for e in ended.result.executions] == [
        ("final_answer", Outcome.NOT_RUN),
        ("refuse", Outcome.FAILED),
        ("final_answer", Outcome.DONE),
    ]
    assert conversation(ended)[1] == answer_of(
        final(),
        "This answer was not taken, since calls beside it failed: ['refuse']. Look at their results, then give it "
        "again.",
        is_error=True,
    )


def test_a_call_beside_it_that_gives_the_run_up_leaves_the_answer_not_run(mode: Mode) -> None:
    shop = Shop()
    pay = call("pay", id="p")
    ended = mode.play(ask(book("a"), final(), pay), output=Trip, tools=[shop])
    assert isinstance(ended.error, ValueError)
    assert {e.call.name: e.outcome for e in ended.executions} == {
        "book": Outcome.DONE,
        "final_answer": Outcome.NOT_RUN,
        "pay": Outcome.UNKNOWN,
    }
    assert shop.log == ["book a", "pay badly", "cancel booked a"]


def test_of_several_answers_in_one_reply_the_first_that_fits_is_taken(mode: Mode) -> None:
    other = '{"city": "Oslo", "days": 1}'
    asked = (final(BAD, "1"), final(GOOD, "2"), final(other, "3"))
    ended = mode.play(ask(*asked), output=Trip, output_retries=0)
    assert ended.result is not None
    assert ended.result.output == ROME
    assert [e.outcome for e in ended.result.executions] == [Outcome.REJECTED, Outcome.DONE, Outcome.NOT_RUN]
    assert conversation(ended)[1:] == [
        answer_of(asked[0], f"The arguments of 'final_answer' do not fit: {WRONG}", is_error=True),
        answer_of(asked[1], "The final answer was taken."),
        answer_of(asked[2], "This answer was not taken: another one of the same reply was.", is_error=True),
    ]


def test_an_answer_is_no_round_and_no_call_for_the_limits(mode: Mode) -> None:
    ended = mode.play(ask(call("look")), ask(final()), output=Trip, tools=[look], limits=Limits(rounds=1, calls=1))
    assert ended.result is not None
    assert ended.result.output == ROME


def test_calls_beside_an_answer_count(mode: Mode) -> None:
    ended = mode.play(
        ask(call("look")), ask(call("send_sms"), final()), output=Trip, tools=[look, send_sms], limits=Limits(rounds=1)
    )
    assert isinstance(ended.error, RoundLimitError)
    assert [e.outcome for e in ended.executions] == [Outcome.DONE, Outcome.NOT_RUN, Outcome.NOT_RUN]


def test_hooks_and_who_authorises_are_not_asked_about_answers(mode: Mode) -> None:
    asked: list[str] = []

    def authorise(context: Any, arguments: Any) -> bool:
        asked.append(context.call.name)
        return True

    ended = mode.play(
        ask(call("look"), final()),
        output=Trip,
        tools=[look],
        authorise=authorise,
        before_tool=lambda context: asked.append(f"before {context.call.name}"),
        after_tool=lambda execution, context: asked.append(f"after {execution.call.name}"),
    )
    assert ended.result is not None
    assert (ended.result.output, asked) == (ROME, ["before look", "look", "after look"])


def test_an_answer_is_not_taken_early_but_calls_beside_it_may_start(concurrent: Mode) -> None:
    ended = concurrent.play(ask(final(), call("send_sms")), output=Trip, tools=[send_sms], early_start="all")
    assert ended.result is not None
    assert ended.result.output == ROME
    assert {e.call.name: e.outcome for e in ended.result.executions} == {
        "final_answer": Outcome.DONE,
        "send_sms": Outcome.DONE,
    }


def test_a_run_that_is_cancelled_beside_an_answer_has_none(mode: Mode) -> None:
    from surehand import CancelToken

    token = CancelToken()

    @tool
    def stop() -> str:
        """Stop."""
        token.cancel()
        return "stopped"

    ended = mode.play(ask(final(), call("stop")), output=Trip, tools=[stop], run={"cancel": token})
    assert isinstance(ended.error, RunCancelled)
    assert {e.call.name: e.outcome for e in ended.executions} == {
        "final_answer": Outcome.NOT_RUN,
        "stop": Outcome.DONE,
    }


# ---------------------------------------------------------------- tools that end the run (spec 7.9.4)


def ending(value: Any, name: str = "end", returns: ReturnBehavior = ReturnBehavior.IMMEDIATE) -> Any:
    def body() -> Any:
        """End."""
        return value

    body.__annotations__["return"] = type(value)  # so that a journal can keep it
    return tool(name=name, returns=returns)(body)


@pytest.mark.parametrize(
    ("hint", "values", "output"),
    [
        (Trip, [ROME], ROME),
        (Trip, [ROME, None], ROME),
        (str, ["text"], "text"),
        (int, [3], 3),
        (Trip, [None], None),
        (Trip, [None, None], None),
        (list[int], [[1, 2]], [1, 2]),
        (Trip | int, [7], 7),
        (Keys, [{"a": 1}], {"a": 1}),
        (Bounded, [5], 5),
        (None, ["text", 1], None),
        (Any, ["text"], "text"),
    ],
    ids=str,
)
def test_what_tools_that_end_the_run_return_is_the_output(mode: Mode, hint: Any, values: Any, output: Any) -> None:
    names = [f"end{number}" for number in range(len(values))]
    tools = [ending(value, name) for value, name in zip(values, names, strict=True)]
    ended = mode.play(ask(*map(call, names)), output=hint, output_mode="text", tools=tools)
    assert ended.result is not None
    assert (ended.result.output, ended.result.immediate) == (output, True)
    assert [event.output for event in ended.of(RunFinished)] == [output]


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (Trip, ["text"]),
        (Trip, [ROME, ROME]),
        (str, ["a", "b"]),
        (int, ["3"]),
        (int, [True]),
        (list[int], [["x"]]),
        (Bounded, [6]),
    ],
    ids=str,
)
def test_anything_else_is_a_user_error(mode: Mode, hint: Any, values: Any) -> None:
    names = [f"end{number}" for number in range(len(values))]
    tools = [ending(value, name) for value, name in zip(values, names, strict=True)]
    ended = mode.play(ask(*map(call, names)), output=hint, output_mode="text", tools=tools)
    assert isinstance(ended.error, UserError)
    assert "leave output= out" in str(ended.error)


def test_a_tool_for_the_model_beside_the_one_that_ends_the_run_is_a_user_error(mode: Mode) -> None:
    tools = [ending(None, "plain", ReturnBehavior.TO_MODEL), ending(ROME, "end", ReturnBehavior.IMMEDIATE_IF_LAST)]
    ended = mode.play(ask(call("plain"), call("end")), output=Trip, output_mode="text", tools=tools)
    assert isinstance(ended.error, UserError)


def test_only_the_round_that_ends_the_run_is_looked_at(mode: Mode) -> None:
    results = iter([ToolError("flaky"), ROME])

    @tool(returns=ReturnBehavior.IMMEDIATE)
    def end() -> Trip:
        """End."""
        found = next(results)
        if isinstance(found, ToolError):
            raise found
        return found

    ended = mode.play(ask(call("end")), ask(call("end")), output=Trip, output_mode="text", tools=[end])
    assert ended.result is not None
    assert ended.result.output == ROME


def test_without_a_type_tools_that_end_the_run_leave_no_output(mode: Mode) -> None:
    ended = mode.play(ask(call("end")), tools=[ending("text")])
    assert ended.result is not None
    assert (ended.result.output, ended.result.immediate) == (None, True)


# ---------------------------------------------------------------- configuration


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"output_mode": "json"}, "output_mode='json'; expected one of"),
        ({"output_retries": -1}, "output_retries=-1; expected how often"),
        ({"output_retries": True}, "output_retries=True; expected how often"),
        ({"beside_output": "never"}, "beside_output='never'; expected one of"),
        ({"output_type": Trip}, "write Agent(…, output=…)"),
        ({"chat_parameters": ChatParameters(response_format=ResponseFormat("json"))}, "output_mode="),
    ],
)
def test_options_that_cannot_work_are_refused(options: Any, words: str) -> None:
    with pytest.raises(UserError) as refused:
        Agent(ScriptedModel([]), output=Trip, **options)
    assert words in str(refused.value)


def test_a_tool_of_the_same_name_is_refused() -> None:
    named = tool(name="final_answer")(lambda: None)
    with pytest.raises(UserError, match="give yours another name"):
        Agent(ScriptedModel([]), output=Trip, tools=[named])
    assert Agent(ScriptedModel([]), output=Trip, tools=[named], output_mode="text") is not None


def test_the_type_of_one_run_is_the_agents() -> None:
    agent: Any = Agent(ScriptedModel([]), output=Trip)
    with pytest.raises(UserError, match=r"Agent\(…, output=…\)"):
        agent.run("Go", output=int)
    with pytest.raises(UserError, match=r"Agent\(output=…\)"):
        agent.run("Go", chat_parameters=ChatParameters(response_format=ResponseFormat("json")))


def test_a_choice_of_the_users_own_is_not_replaced() -> None:
    model = ScriptedModel([say(GOOD)])
    parameters = ChatParameters(tool_choice=ToolChoice.AUTO)
    assert Agent(model, output=Trip, chat_parameters=parameters).run("Go").output == ROME
    assert model.requests[0].parameters.tool_choice is ToolChoice.AUTO


def test_the_usage_of_refused_answers_counts() -> None:
    from surehand import Usage

    model = ScriptedModel([say(BAD, usage=Usage(1, 2)), calls(final(), usage=Usage(3, 4))])
    result = Agent(model, output=Trip).run("Go")
    assert (result.output, result.usage) == (ROME, Usage(4, 6))


# ---------------------------------------------------------------- while it is being written

PARTS = ['{"city": "Ro', 'me", "day', 's": 3', "}"]
SO_FAR = [{"city": "Ro"}, {"city": "Rome"}, {"city": "Rome", "days": 3}, ROME]
IN_WORDS = [*map(TextPiece, PARTS), ResponseDone(say(GOOD))]
AS_A_CALL = [
    TextPiece("{not the answer}"),
    ToolCallPiece(0, "l", "look", "{}"),
    *(ToolCallPiece(1, "f", "" if number else "final_answer", part) for number, part in enumerate(PARTS)),
    ResponseDone(ask(call("look", id="l"), final())),
]


def partial(model: ScriptedModel, colour: str, **options: Any) -> list[Any]:
    agent = Agent[Any, Any](model, tools=[look], **options)

    async def awaited() -> list[Any]:
        async with agent.astream("Go") as run:
            return [value async for value in run.partial_outputs()]

    if colour == "awaitable":
        return asyncio.run(awaited())
    with agent.stream("Go") as run:
        return list(run.partial_outputs())


@pytest.mark.parametrize("colour", ["blocking", "awaitable"])
@pytest.mark.parametrize(("form", "pieces"), [("text", IN_WORDS), ("tool", AS_A_CALL)])
def test_a_stream_gives_the_output_as_it_grows(form: Any, pieces: Any, colour: str) -> None:
    assert partial(ScriptedModel([pieces]), colour, output=Trip, output_mode=form) == SO_FAR


def test_a_list_grows_without_the_object_around_it() -> None:
    pieces = [TextPiece('{"result": ["a", "b'), TextPiece('c"]}'), ResponseDone(say('{"result": ["a", "bc"]}'))]
    found = partial(ScriptedModel([pieces]), "blocking", output=list[str], output_mode="text")
    assert found == [["a", "b"], ["a", "bc"], ["a", "bc"]]


def test_an_answer_that_is_sent_back_is_followed_by_the_next() -> None:
    found = partial(ScriptedModel([say("oops"), say(GOOD)]), "blocking", output=Trip, output_mode="text")
    assert (found[0], found[-1]) == ({}, ROME)
    assert {"city": "Rome"} in found


def test_without_a_type_the_text_grows() -> None:
    assert partial(ScriptedModel([say("a b")]), "blocking") == ["a ", "a b", "a b"]
