"""A tool's schema for providers that know only the older words of JSON schema."""

from __future__ import annotations

from typing import Any

from surehand.messages import ChatParameters, ChatRequest, ToolSpec, UserMessage
from surehand.models._openai_requests import request_body
from surehand.models._portable import portable_schema
from surehand.models._prompted import Policy, plan_reply
from surehand.models._wire import WireNames

WHOLE, TEXT = {"type": "integer"}, {"type": "string"}
PAIR = {"type": "array", "prefixItems": [WHOLE, TEXT], "minItems": 2, "maxItems": 2}
FLAT_PAIR = {
    "type": "array",
    "items": {"anyOf": [WHOLE, TEXT]},
    "minItems": 2,
    "maxItems": 2,
    "description": "Exactly these items, in this order: integer, string",
}


def test_a_tuple_becomes_an_array_of_either_kind_with_the_order_in_words() -> None:
    assert portable_schema(PAIR) == FLAT_PAIR


def test_equal_kinds_are_named_once() -> None:
    flat = portable_schema({"type": "array", "prefixItems": [WHOLE, WHOLE]})
    assert flat == {
        "type": "array",
        "items": WHOLE,
        "description": "Exactly these items, in this order: integer, integer",
    }


def test_a_tuple_with_an_open_end_takes_the_kind_of_the_rest_as_well() -> None:
    flat = portable_schema({"type": "array", "prefixItems": [WHOLE], "items": TEXT, "description": "Mine."})
    assert flat == {"type": "array", "items": {"anyOf": [WHOLE, TEXT]}, "description": "Mine."}


def test_tuples_are_found_anywhere_and_data_is_left_alone() -> None:
    def schema(pair: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {
                "prefixItems": {"anyOf": [pair, {"type": "null"}]},
                "many": {"type": "array", "items": pair},
            },
            "$defs": {"P": pair},
            "default": {"prefixItems": [1]},
        }

    assert portable_schema(schema(PAIR)) == schema(FLAT_PAIR)


def test_openai_is_sent_the_portable_form() -> None:
    spec = ToolSpec("move", None, {"type": "object", "properties": {"to": PAIR}})
    request = ChatRequest((UserMessage.of("go"),), ChatParameters(tools=(spec,)))
    (sent,) = request_body(request, WireNames([spec]), limit_key="max_tokens")["tools"]
    assert sent["function"]["parameters"] == {"type": "object", "properties": {"to": FLAT_PAIR}}
    assert spec.parameters == {"type": "object", "properties": {"to": PAIR}}


def test_a_prompted_model_is_held_to_the_order_of_a_tuple() -> None:
    spec = ToolSpec("move", None, {"type": "object", "properties": {"to": PAIR}, "required": ["to"]})
    request = ChatRequest((UserMessage.of("Move 3 to Rome"),), ChatParameters(tools=(spec,)))
    plan = plan_reply(request, Policy(spans=True, tool_rounds=None, quote=False))
    assert plan.schema is not None
    call = plan.schema["anyOf"][0]["properties"]["arguments"]["properties"]["to"]
    assert call["prefixItems"][0] == {"enum": [3]}
    assert "Rome" in call["prefixItems"][1]["enum"]
