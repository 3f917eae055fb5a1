"""Worked examples for prompted tools, made from the tools' own schemas or given by whoever knows better."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ..errors import UserError
from ..messages import ToolSpec

__all__ = ["Example", "first_sentence", "worked_examples"]

_MOST_TOOLS = 12  # a prompt with examples of every tool of a large set would fill the context
_WORDS = ("Aster", "Birch", "Cedar", "Dahlia", "Elm", "Fern", "Ginger", "Hazel")
_NUMBERS = (3, 12, 60)
_ANSWERED = ("Hello, who are you?", "Hello! I am an assistant. How can I help you?")


class Example(NamedTuple):
    """A request and the reply wanted for it: the call of a tool, or an answer where ``tool`` is empty."""

    request: str
    tool: str
    arguments: Mapping[str, Any] | str

    def reply(self) -> dict[str, Any]:
        """The JSON form of the reply."""
        return {"name": self.tool, "arguments": self.arguments} if self.tool else {"answer": self.arguments}


def first_sentence(spec: ToolSpec) -> str:
    """The first sentence of the tool's description without its full stop, or its name in words."""
    description = (spec.description or "").strip() or _in_words(spec.name)
    return re.split(r"(?<=[.!?])\s", description)[0].rstrip(".")


def worked_examples(tools: Sequence[ToolSpec], extra: Sequence[Example], *, may_answer: bool) -> list[Example]:
    """Examples for the tools in their order, after one of an answer where the model may give one.

    A tool's examples are those in ``metadata["examples"]`` (pairs of request and arguments) and the extra ones
    that name it; a tool without any gets one made from its description and parameters.
    """
    examples = [Example(_ANSWERED[0], "", _ANSWERED[1])] if may_answer else []
    counter = itertools.count()
    for spec in tools[-_MOST_TOOLS:]:
        given = [*_own_examples(spec), *(example for example in extra if example.tool == spec.name)]
        examples += given or [_made(spec, counter)]
    return examples


def _own_examples(spec: ToolSpec) -> list[Example]:
    pairs: Any = spec.metadata.get("examples", ())
    try:
        return [Example(str(request), spec.name, dict(arguments)) for request, arguments in pairs]
    except (TypeError, ValueError) as error:
        raise UserError(
            f"metadata['examples'] of tool {spec.name!r}: expected pairs (request, arguments), found {pairs!r}"
        ) from error


def _made(spec: ToolSpec, counter: Iterator[int]) -> Example:
    schema = spec.parameters or {}
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    names = [name for name in properties if name in required] or list(properties)[:1]
    arguments = {name: _sample(properties[name], definitions, counter) for name in names}
    told = ", ".join(f"{name} {_told(value)}" for name, value in arguments.items())
    return Example(f"{first_sentence(spec)}: {told}" if told else first_sentence(spec), spec.name, arguments)


def _sample(schema: Any, definitions: Mapping[str, Any], counter: Iterator[int], depth: int = 0) -> Any:
    if not isinstance(schema, Mapping) or depth > 6:
        return _WORDS[next(counter) % len(_WORDS)]
    node = cast("Mapping[str, Any]", schema)
    for key in ("enum", "examples"):
        if node.get(key):
            return node[key][next(counter) % len(node[key])]
    if "const" in node:
        return node["const"]
    if "$ref" in node:
        return _sample(definitions.get(node["$ref"].rsplit("/", 1)[-1]), definitions, counter, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if node.get(key):
            return _sample(node[key][0], definitions, counter, depth + 1)
    return _sample_of_type(node, definitions, counter, depth)


def _sample_of_type(node: Mapping[str, Any], definitions: Mapping[str, Any], counter: Iterator[int], depth: int) -> Any:
    match node.get("type"):
        case "integer" | "number":
            return _NUMBERS[next(counter) % len(_NUMBERS)]
        case "boolean":
            return True
        case "null":
            return None
        case "array":
            items: Sequence[Any] = node.get("prefixItems") or [node.get("items", {})]
            return [_sample(item, definitions, counter, depth + 1) for item in items]
        case "object":
            properties: Mapping[str, Any] = node.get("properties", {})
            return {name: _sample(inner, definitions, counter, depth + 1) for name, inner in properties.items()}
        case _:
            return _FORMATS.get(node.get("format", "")) or _WORDS[next(counter) % len(_WORDS)]


_FORMATS = {"date": "2025-05-03", "date-time": "2025-05-03T10:00:00Z", "time": "10:00:00", "email": "a@example.com"}


def _told(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(_told, cast("Sequence[Any]", value)))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(inner)}" for name, inner in cast("dict[str, Any]", value).items())
    return str(value)


def _in_words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_\W]+", " ", name).strip()
