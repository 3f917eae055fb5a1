"""Places in JSON data: what changes there, in a copy, and the numbers that were written there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._json_text import Token, is_array, is_object, tokens_of
from ._problems import Path

__all__ = ["NOTHING", "NewName", "Written", "changed", "names_collide"]

NOTHING: Any = object()  # no value at all, where null is one


def changed(data: Any, changes: Iterable[tuple[Path, Any]]) -> Any:
    """A copy with the changes; what a path leads through is copied once, however many changes are in it.

    A place that becomes ``NOTHING`` is left out of its object.
    """
    root = data.copy()
    copies: dict[int, Any] = {id(root): root}
    # New names come last: paths lead over the old ones.
    for path, after in sorted(changes, key=lambda change: type(change[1]) is NewName):
        node: Any = root
        for key in path[:-1]:
            child = node[key]
            if id(child) not in copies:
                node[key] = child = child.copy()
                copies[id(child)] = child
            node = child
        if after is NOTHING:
            node.pop(path[-1], None)
        elif type(after) is NewName:
            renamed = [(str(after) if key == path[-1] else key, value) for key, value in node.items()]
            node.clear()
            node.update(renamed)
        else:
            node[path[-1]] = after
    return root


class NewName(str):
    """What the name of a property becomes, where that changes and not its value."""

    __slots__ = ()


def names_collide(data: Any, changes: Iterable[tuple[Path, Any]]) -> bool:
    """Whether a property would get the name of another, and one of the two would be lost."""
    taken: set[Path] = set()
    for path, after in changes:
        if type(after) is NewName:
            parent: Any = data
            for key in path[:-1]:
                parent = parent[key]
            name = (*path[:-1], str(after))
            if after in parent or name in taken:
                return True
            taken.add(name)
    return False


class Written:
    """The numbers of a text as the model wrote them; the text is read again only when one is asked for.

    ``exact`` tells whether fractions that a float cannot hold are kept as decimals, ``scale`` whether those are that
    end in a zero.
    """

    def __init__(self, text: str, *, exact: bool, scale: bool = False) -> None:
        self.exact = exact
        self.scale = scale
        self._text = text
        self._below: list[str] = []
        self._root: Any = NOTHING

    def enter(self, key: str) -> None:
        """Paths lead on from that property from now on."""
        self._below.append(key)

    def at(self, path: Path) -> str | None:
        """The number at that place, if it can still be found; text on the way is read as JSON."""
        node = self.tokens_at(path)
        return str(node) if isinstance(node, Token) else None

    def tokens_at(self, path: Path) -> Any:
        """What is at that place, with numbers as ``Token``; ``None`` also if it cannot be found any more."""
        if self._root is NOTHING:
            self._root = tokens_of(self._text)
        node: Any = self._root
        parent: Any = {}
        last: str | int = ""
        for key in (*self._below, *path):
            if type(node) is str:
                node = parent[last] = tokens_of(node)
            if is_object(node) and key in node:
                parent, last, node = node, key, node[str(key)]
            elif is_array(node) and isinstance(key, int) and key < len(node):
                parent, last, node = node, key, node[key]
            else:
                return None
        return node
