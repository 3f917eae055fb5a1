"""What messages are made of: text, images, sound, video, documents (spec 2.2). Frozen, compared by content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from ._codec import PydanticField
from .errors import UserError

__all__ = ["AudioContent", "Content", "ImageContent", "PdfContent", "TextContent", "Value", "VideoContent", "text_of"]


class Value(PydanticField, Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=False):
    """Base of our values: frozen, equal by content, usable as a field of a pydantic model."""


class TextContent(Value, frozen=True, gc=False, tag_field="type", tag="text"):
    """Plain text."""

    text: str


class _Media(Value, frozen=True):
    """Something that is not text: exactly one of ``url`` and ``data`` (base64 text, with ``mime_type``)."""

    url: str | None = None
    data: str | None = None
    mime_type: str | None = None

    def __post_init__(self) -> None:
        if (self.url is None) == (self.data is None):
            raise UserError(f"{type(self).__name__} takes exactly one of url= and data= (base64 text)")
        if self.data is not None and not self.mime_type:
            raise UserError(f"{type(self).__name__}(data=…) needs mime_type=, for example 'image/png'")


class ImageContent(_Media, frozen=True, tag_field="type", tag="image"):
    """An image, by address or as base64 text; ``detail`` is a hint to the provider."""

    detail: Literal["low", "high", "auto"] = "low"
    revised_prompt: str | None = None


class AudioContent(_Media, frozen=True, tag_field="type", tag="audio"):
    """Sound, by address or as base64 text."""


class VideoContent(_Media, frozen=True, tag_field="type", tag="video"):
    """Moving pictures, by address or as base64 text."""


class PdfContent(_Media, frozen=True, tag_field="type", tag="pdf"):
    """A PDF document, by address or as base64 text."""


Content: TypeAlias = TextContent | ImageContent | AudioContent | VideoContent | PdfContent
"""Anything that a message may hold (spec 2.2.1)."""


def text_of(contents: Sequence[Content]) -> str:
    """The text of exactly one text content; anything else raises ``UserError`` (spec 2.1.3, 2.1.5)."""
    if len(contents) == 1 and isinstance(contents[0], TextContent):
        return contents[0].text
    kinds = [type(content).__name__ for content in contents]
    raise UserError(f"expected exactly one TextContent, found {kinds!r}; read .contents instead")
