"""The JSON schema that a prompted model's reply must fit, narrowed to what the user's request can mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from ..messages import ToolSpec

__all__ = ["by_relevance", "reply_schema"]

Schema = Mapping[str, Any]

_LONGEST_SPAN = 5
_MOST_WORDS = 80  # longer requests are texts to work on; their every span would make a huge grammar
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w]|\.\d)")
_QUOTED = re.compile(r"[\"“«](.+?)[\"”»]|(?<!\w)'(.+?)'(?!\w)")
_EDGES = ".,;:?!\"'()[]{}“”«»"
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\S+",
        "a an the to in on at of for from by with into about is are was be do does did what what's how when where "
        "which who why will would can could should i me my we us you your it its this that there and or not please",
    )
)
_SMALL_NUMBERS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_LARGER = {"fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "hundred": 100}
_NUMBER_WORDS = {word: value for value, word in enumerate(_SMALL_NUMBERS)} | _LARGER
_PLAIN_STRING = frozenset({"type", "title", "description", "default", "minLength", "maxLength"})


def reply_schema(tools: Sequence[ToolSpec], answer: Schema | None, request: str | None) -> Schema:
    """A schema that takes a call of one of the tools, or ``{"answer": …}`` unless ``answer`` is ``None``.

    With a ``request``, free strings become spans of it and numbers become those in it, and a tool that requires
    what the request does not have is left out, unless that would leave no tool at all.
    """
    definitions: dict[str, Any] = {}
    found = None if request is None else _find(request)
    forms = [_call_form(spec, definitions, found, place) for place, spec in enumerate(tools)]
    calls = [form for form in forms if form is not None]
    if not calls and answer is None:
        calls = [form for place, spec in enumerate(tools) if (form := _call_form(spec, definitions, None, place))]
    if answer is not None:
        calls.append(_object({"answer": _hoisted(answer, "answer_", definitions)}))
    schema: dict[str, Any] = {"anyOf": calls} if len(calls) > 1 else dict(calls[0])
    return {**schema, "$defs": definitions} if definitions else schema


def by_relevance(tools: Sequence[ToolSpec], request: str) -> list[ToolSpec]:
    """The tools, those that share most words with the request last."""
    asked = _stems(request)

    def shared(spec: ToolSpec) -> int:
        return len(_stems(f"{spec.name} {spec.description or ''} {_words_of(spec.parameters or {})}") & asked)

    return sorted(tools, key=shared)


def _call_form(spec: ToolSpec, definitions: dict[str, Any], found: _Found | None, place: int) -> Schema | None:
    parameters = _hoisted(spec.parameters or {}, f"t{place}_", definitions)
    properties: dict[str, Any] = dict(parameters.get("properties", {}))
    required = [name for name in parameters.get("required", ()) if name in properties]
    if found is not None:
        narrowed = {name: _narrowed(inner, found) for name, inner in properties.items()}
        if any(narrowed[name] is None for name in required):
            return None
        properties = {name: inner for name, inner in narrowed.items() if inner is not None}
    arguments = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return _object({"name": {"const": spec.name}, "arguments": arguments})


def _object(properties: Mapping[str, Any]) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _hoisted(schema: Schema, prefix: str, definitions: dict[str, Any]) -> Schema:
    """The schema with its definitions moved to the root under names of their own, since "$ref" counts from there."""

    def renamed(node: Any) -> Any:
        if isinstance(node, list | tuple):
            return [renamed(item) for item in cast("Sequence[Any]", node)]
        if not isinstance(node, Mapping):
            return node
        inner = cast("Schema", node)
        copy = {key: renamed(value) for key, value in inner.items() if key not in ("$defs", "definitions")}
        reference = inner.get("$ref")
        if isinstance(reference, str):
            copy["$ref"] = f"#/$defs/{prefix}{reference.rsplit('/', 1)[-1]}"
        return copy

    for key in ("$defs", "definitions"):
        for name, inner in schema.get(key, {}).items():
            definitions[prefix + name] = renamed(inner)
    return cast("Schema", renamed(schema))


# ---------------------------------------------------------------- narrowing


class _Found(NamedTuple):
    """What a request holds that arguments can be made of."""

    text: str
    spans: list[str]
    numbers: list[int | float]


def _find(request: str) -> _Found:
    numbers = [float(text) if "." in text else int(text) for text in _NUMBER.findall(request)]
    numbers += [_NUMBER_WORDS[word] for word in re.findall(r"[a-z]+", request.lower()) if word in _NUMBER_WORDS]
    return _Found(request.lower(), _spans(request), list(dict.fromkeys(numbers)))


def _spans(request: str) -> list[str]:
    words = [word for word in (part.strip(_EDGES) for part in request.split()) if word]
    if len(words) > _MOST_WORDS:
        return []
    starts = range(len(words))
    every = [" ".join(words[i : i + n]) for i in starts for n in range(1, _LONGEST_SPAN + 1)]
    # A value seldom begins or ends with "the" or "in"; a small model's value often would.
    good = [span for span in every if not _FUNCTION_WORDS & {span.split()[0].lower(), span.split()[-1].lower()}]
    quoted = [one or other for one, other in _QUOTED.findall(request)]
    after_colon = [request.partition(":")[2].strip()] if ":" in request else []
    return list(dict.fromkeys(span for span in (good or every) + quoted + after_colon if span))


def _narrowed(schema: Any, found: _Found) -> Any:
    """The schema for values that are in the request; ``None`` when there are none."""
    if not isinstance(schema, Mapping):
        return schema
    node = cast("Schema", schema)
    if "enum" in node:
        named = [value for value in node["enum"] if _is_named(value, found.text)]
        return {**node, "enum": named} if named else node
    if isinstance(node.get("anyOf"), list):
        inner = [narrow for part in node["anyOf"] if (narrow := _narrowed(part, found)) is not None]
        return {**node, "anyOf": inner} if inner else None
    match node.get("type"):
        case "string" if found.spans and node.keys() <= _PLAIN_STRING:
            return {"enum": found.spans}
        case "integer":
            return _one_of([number for number in found.numbers if isinstance(number, int)])
        case "number":
            return _one_of(found.numbers)
        case "array" if "prefixItems" in node:
            places = [_narrowed(item, found) for item in node["prefixItems"]]
            return None if None in places else {**node, "prefixItems": places}
        case "array":
            items = _narrowed(node.get("items", {}), found)
            return None if items is None else {**node, "items": items}
        case _:
            return node


def _is_named(value: Any, text: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(str(value).lower())}(?!\w)", text))


def _one_of(values: Sequence[int | float]) -> Schema | None:
    return {"enum": list(values)} if values else None


def _stems(text: str) -> set[str]:
    return {word[:5] for word in re.findall(r"[a-z]+", text.lower()) if word not in _FUNCTION_WORDS}


def _words_of(node: Any) -> str:
    """Names, descriptions and enum values in a schema, as one text."""
    if isinstance(node, Mapping):
        inner = cast("Schema", node)
        told = [str(inner.get("description", "")), *map(str, inner.get("enum", ()))]
        for name, part in inner.get("properties", {}).items():
            told += [str(name), _words_of(part)]
        return " ".join(told)
    return ""
