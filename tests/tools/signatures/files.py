"""Files, text, archives and the machine itself."""

from __future__ import annotations

import base64
import enum
import os
import pathlib
import re
from collections.abc import Collection, Set
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, LiteralString, NewType, Self, TypeAlias

import msgspec
from annotated_types import Len, MaxLen, MinLen
from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, Field, StringConstraints, field_validator
from pydantic.dataclasses import dataclass as checked_dataclass
from typing_extensions import TypedDict

from surehand.tools._tool import ToolContext

from . import case

FileId = NewType("FileId", int)
Encoding: TypeAlias = Literal["utf-8", "latin-1"]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z-]+$", to_lower=False)]
Upper = Annotated[str, AfterValidator(str.upper)]


def _split(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_split)]


class Mode(enum.StrEnum):
    READ = "r"
    WRITE = "w"


class Permission(enum.IntFlag):
    READ = 4
    WRITE = 2
    EXECUTE = 1


class Span(BaseModel):
    start: int
    stop: int

    @field_validator("stop")
    @classmethod
    def _after_start(cls, value: int) -> int:
        return value


class Folder(BaseModel):
    name: str
    folders: list[Folder] = []


class Node(TypedDict):
    path: str
    nodes: list[Node]


@checked_dataclass
class Match:
    line: int
    text: str = ""


@case('{"path": "a/b.txt"}', path="a/b.txt", encoding="utf-8")
def read_text(path: str, encoding: Encoding = "utf-8") -> Any:
    return locals()


@case('{"path": "a/b.txt"}', path=Path("a/b.txt"))
def read_path(path: Path) -> Any:
    return locals()


@case('{"path": "/a"}', path=PurePosixPath("/a"))
def split_path(path: PurePosixPath) -> Any:
    return locals()


@case("{}", root=Path("."), pattern="*", recursive=False)
def list_files(root: Path = Path("."), pattern: str = "*", recursive: bool = False) -> Any:
    return locals()


@case('{"paths": ["a", "b"]}', paths=[Path("a"), Path("b")])
def delete_files(paths: list[Path]) -> Any:
    return locals()


@case('{"path": "a"}', path="a")
def stat(path: str | os.PathLike[str]) -> Any:
    return locals()


@case('{"path": "a", "data": "aGVsbG8="}', path="a", data=b"hello")
def write_bytes(path: str, data: bytes) -> Any:
    return locals()


@case('{"data": "_-8="}', data=base64.urlsafe_b64decode("_-8="))
def hash_bytes(data: bytes) -> Any:
    return locals()


@case('{"parts": ["YQ==", "Yg=="]}', parts=[b"a", b"b"])
def join_bytes(parts: list[bytes]) -> Any:
    return locals()


@case('{"path": "a", "mode": "w"}', path="a", mode=Mode.WRITE)
def open_file(path: str, mode: Mode = Mode.READ) -> Any:
    return locals()


@case('{"path": "a", "permission": 4}', path="a", permission=Permission.READ)
def chmod(path: str, permission: Permission) -> Any:
    return locals()


@case('{"pattern": "a+b"}', pattern=re.compile("a+b"))
def grep(pattern: re.Pattern[str]) -> Any:
    return locals()


@case('{"text": "x", "span": {"start": 1, "stop": 2}}', text="x", span=Span(start=1, stop=2))
def cut(text: str, span: Span) -> Any:
    return locals()


@case(
    '{"folder": {"name": "a", "folders": [{"name": "b"}]}}',
    folder=Folder(name="a", folders=[Folder(name="b")]),
)
def make_folders(folder: Folder) -> Any:
    return locals()


@case('{"node": {"path": "a", "nodes": []}}', node={"path": "a", "nodes": []})
def make_nodes(node: Node) -> Any:
    return locals()


@case('{"file_id": 5}', file_id=5)
def download(file_id: FileId) -> Any:
    return locals()


@case('{"slug": "a-b"}', slug="a-b")
def create_page(slug: Slug) -> Any:
    return locals()


@case('{"code": "abc"}', code="ABC")
def lookup_code(code: Upper) -> Any:
    return locals()


@case('{"names": ["a", "b"]}', names=["a", "b"])
def archive(names: Names) -> Any:
    return locals()


@case('{"hits": [{"line": 3}]}', hits=[Match(3)])
def show(hits: list[Match]) -> Any:
    return locals()


@case('{"size": "1MB"}', size=ByteSize(1000000))
def truncate(size: ByteSize) -> Any:
    return locals()


@case('{"names": ["a"]}', names=["a"])
def keep(names: Collection[str]) -> Any:
    return locals()


@case('{"names": ["a", "a"]}', names=frozenset({"a"}))
def forget(names: Set[str]) -> Any:
    return locals()


@case('{"command": "ls"}', command="ls")
def run_query(command: LiteralString) -> Any:
    return locals()


@case('{"args": ["-l"], "kwargs": {"cwd": "/"}}', args=["-l"], kwargs={"cwd": "/"})
def run_command(args: list[str], kwargs: dict[str, str]) -> Any:
    return locals()


@case('{"self": "a", "cls": "b"}', self="a", cls="b")
def compare(self: str, cls: str) -> Any:
    return locals()


@case('{"schema": "s", "json": "j", "copy": 1, "model_config": "m"}', schema="s", json="j", copy=1, model_config="m")
def convert(schema: str, json: str, copy: int, model_config: str) -> Any:
    return locals()


@case(
    '{"type": "t", "class_": "c", "fields": ["f"], "validate": true, "dict": {}, "construct": 1}',
    type="t", class_="c", fields=["f"], validate=True, dict={}, construct=1,
)  # fmt: skip
def transform(type: str, class_: str, fields: list[str], validate: bool, dict: dict[str, int], construct: int) -> Any:
    return locals()


@case('{"__version": 2, "_id": 1, "__dunder__": 3}', __version=2, _id=1, __dunder__=3)
def migrate(__version: int, _id: int, __dunder__: int) -> Any:
    return locals()


@case('{"a": 1, "b": 2, "c": 3}', a=1, b=2, c=3, d=4)
def mixed(a: int, /, b: int, *, c: int, d: int = 4) -> Any:
    return locals()


@case('{"point": [1, 2.5]}', point=(1.0, 2.5))
def crop(point: tuple[float, float]) -> Any:
    return locals()


@case('{"box": [[0, 0], [1, 2]]}', box=((0, 0), (1, 2)))
def crop_box(box: tuple[tuple[int, int], tuple[int, int]]) -> Any:
    return locals()


@case('{"entry": ["a", 1, true]}', entry=("a", 1, True))
def unpack(entry: tuple[str, int, bool]) -> Any:
    return locals()


@case('{"nothing": []}', nothing=())
def empty(nothing: tuple[()]) -> Any:
    return locals()


@case('{"lines": ["a"]}', lines=["a"])
def append_lines(lines: Annotated[list[str], Len(1, 3)]) -> Any:
    return locals()


@case('{"name": "ab"}', name="ab")
def rename(name: Annotated[str, MinLen(2), MaxLen(5), "The new name."]) -> Any:
    return locals()


@case('{"name": "ab", "level": 3}', name="ab", level=3)
def compress(
    name: Annotated[str, msgspec.Meta(min_length=2, description="Which file.")],
    level: Annotated[int, msgspec.Meta(ge=1, le=9)] = 6,
) -> Any:
    return locals()


@case("{}", folder=pathlib.Path("/tmp"), limit=None)
def clean(folder: pathlib.Path | None = pathlib.Path("/tmp"), limit: int | None = None) -> Any:
    return locals()


@case('{"text": "", "times": 0}', text="", times=0)
def repeat(text: str, times: Annotated[int, Field(ge=0)]) -> Any:
    return locals()


class Editor:
    """Methods of every kind."""

    def __init__(self, name: str = "ed") -> None:
        self.name = name

    def insert(self, text: str, at: int = 0) -> Any:
        return {"text": text, "at": at}

    async def replace(self, old: str, new: str) -> Any:
        return {"old": old, "new": new}

    @classmethod
    def load(cls, path: Path) -> Any:
        return {"path": path}

    @staticmethod
    def count(text: str) -> Any:
        return {"text": text}

    def merge(self, text: str, other: Self | None, ctx: ToolContext[Any] | None = None) -> Any:
        return {"text": text}

    def __call__(self, line: int) -> Any:
        return {"line": line}


case('{"text": "a"}', text="a", at=0)(Editor().insert)
case('{"old": "a", "new": "b"}', old="a", new="b")(Editor().replace)
case('{"path": "a"}', path=Path("a"))(Editor.load)
case('{"path": "a"}', path=Path("a"))(Editor().load)
case('{"text": "a"}', text="a")(Editor.count)
case('{"line": 3}', line=3)(Editor())
