"""The texts that a model reads when its arguments are refused (spec 4.2.3, 4.4): what is wrong, and what is wanted.

And the refusal that all tools have in common: of what is no object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._codec import clean_text
from ..errors import ToolArgumentsError
from ._json_schema_plain import part_of
from ._json_text import is_array, is_object
from ._problems import Problem, describe, explain

__all__ = ["arguments_of", "misfit", "not_an_object", "object_in", "refused"]

_MOST = 1000
_NAMELESS = '""'
_ANYTHING, _NOTHING, _MEMBERS = "any value", "no value", "one of "


def arguments_of(tool: str) -> str:
    """What was sent, in the words with which each of these texts begins; the others take it as ``what``."""
    return f"The arguments of {tool!r}"


def object_in(data: Any, what: str, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was read, as arguments; raises ``ToolArgumentsError`` if it is no object (spec 4.1.4)."""
    if data is None:
        return {}  # what some models send for "no arguments"
    if not is_object(data):
        raise ToolArgumentsError(not_an_object(what, f"expected a JSON object, received {describe(data)}", schema))
    return data


def not_an_object(what: str, reason: str, schema: Mapping[str, Any] | None) -> str:
    """The text for what is no JSON, or no object."""
    return _short(f"{what} are not a JSON object: {reason}.{_wanted(schema)}")


def misfit(
    what: str, problems: Sequence[Problem], schema: Mapping[str, Any] | None, *, is_too_much: bool = False
) -> str:
    """The text for arguments with those problems; ``is_too_much`` if they might be repaired, but are too many."""
    also = ", and too much is wrong at once" if is_too_much else ""
    return _short(f"{what} do not fit{also}: {explain(problems)}.{_wanted(schema)}")


def refused(what: str, reason: str) -> str:
    """The text for arguments that are refused for another reason."""
    return _short(f"{what} were refused: {reason}")


def _short(text: str) -> str:
    text = clean_text(text)
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


def _wanted(schema: Mapping[str, Any] | None) -> str:
    if schema is None:
        return " It takes no arguments: send {}."
    try:
        return _properties(schema)
    except RecursionError:  # references to references to references
        return ""


def _properties(schema: Mapping[str, Any]) -> str:
    node: Any = schema
    if "properties" not in node and "$ref" in node:
        node = _referred(node, schema) or node
    properties, kinds = node.get("properties"), _Kinds(schema)
    if not is_object(properties) or not properties:
        return ""
    required = node.get("required", ())
    parts = [
        (name or _NAMELESS)
        + f": {' or '.join(kinds.of(entry) or [_ANYTHING])}{'' if name in required else ' (optional)'}"
        for name, entry in properties.items()
    ]
    return f" Expected {{{', '.join(parts)}}}."


def _referred(node: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any] | None:
    found = part_of(root, str(node["$ref"]).removeprefix("#"))
    return found if is_object(found) else None


class _Kinds:
    """In a few words, what fits a part of the schema: each alternative once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[int, list[str]] = {}

    def of(self, entry: Any) -> list[str]:
        """The alternatives; none for a part that leads back to itself."""
        if entry is False:
            return [_NOTHING]
        if not is_object(entry):
            return [_ANYTHING]
        if id(entry) not in self._known:
            self._known[id(entry)] = []
            self._known[id(entry)] = self._nearest(entry)
        return self._known[id(entry)]

    def _nearest(self, entry: dict[str, Any]) -> list[str]:
        """Of what is said about the value, the closest: nothing at all, members, or else whatever says anything."""
        claims = list(self._claims(entry))
        telling = [claim for claim in claims if claim and claim != [_ANYTHING]]
        members = [claim for claim in telling if all(word.startswith(_MEMBERS) for word in claim)]
        if [_NOTHING] in telling:
            return [_NOTHING]
        return next(iter(members or telling), [_ANYTHING] if all(claims) else [])

    def _claims(self, entry: dict[str, Any]) -> Iterator[list[str]]:
        if "enum" in entry or "const" in entry:
            members = entry.get("enum", [entry.get("const")])
            yield [_MEMBERS + ", ".join(map(_shown, members)) if members else _NOTHING]
        if entry.get("not") in ({}, True):
            yield [_NOTHING]
        for key in ("anyOf", "oneOf"):
            if is_array(entry.get(key)):
                yield self._either(entry[key])
        if "$ref" in entry and (target := _referred(entry, self._root)) is not None:
            yield self.of(target)
        kind = entry.get("format") or entry.get("type") or _ANYTHING
        yield list(map(str, kind)) if is_array(kind) else [str(kind)]
        if is_array(entry.get("allOf")):
            yield from map(self.of, entry["allOf"])

    def _either(self, options: Sequence[Any]) -> list[str]:
        words = dict.fromkeys(word for option in options for word in self.of(option))
        return [word for word in words if word != _NOTHING] or list(words)


def _shown(member: Any) -> str:
    # As Python writes text and numbers, which models read well, and as JSON writes the rest.
    return repr(member) if isinstance(member, (str, int, float)) and not isinstance(member, bool) else _json(member)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
