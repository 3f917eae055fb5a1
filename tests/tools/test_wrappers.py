"""Decorators and callable objects that are not what they seem: registered as they are, or refused, and never a hang."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest

from surehand._checks import is_generator
from surehand.errors import UserError
from surehand.tools._collect import collect_tools
from surehand.tools._declare import default_name, tool
from surehand.tools._tool import ToolContext

from .helpers import context, one, run


class Agreeable:
    """Answers to every name, with itself."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, path: str) -> str:
        return f"read {path}"


class Growing(Agreeable):
    """Answers to every name with something new."""

    def __getattr__(self, name: str) -> Any:
        return Growing()


class Endless:
    """Says that it wraps another one, which says the same."""

    @property
    def __wrapped__(self) -> Endless:
        return Endless()

    def __call__(self, path: str) -> str:
        return path


@pytest.mark.parametrize("made", [Mock(), MagicMock(), AsyncMock(), Mock(spec=functools.partial), Endless()])
def test_a_callable_that_does_not_tell_its_parameters_is_refused(made: Any) -> None:
    with pytest.raises(UserError):
        collect_tools([made])


@pytest.mark.parametrize("made", [Mock(), Agreeable(), Growing(), Endless(), Mock(spec=functools.partial)])
def test_questions_about_an_object_that_answers_to_every_name_come_to_an_end(made: Any) -> None:
    assert (default_name(made), is_generator(made)) == (type(made).__name__, False)


@pytest.mark.parametrize("kind", [Agreeable, Growing])
def test_an_object_that_answers_to_every_name_is_registered_by_its_own_call_or_refused(kind: type[Agreeable]) -> None:
    with pytest.raises(UserError, match=r"signature of .* cannot be read"):
        collect_tools([kind()])


# ---------------------------------------------------------------- wrappers that show what they do not take


def takes_first(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapper(user: Any, *args: Any) -> Any:
        return f(*args)

    return wrapper


def takes_first_and_names(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapper(user: Any, *args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    return wrapper


def takes_optional_first(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapper(user: Any = None, /, *args: Any) -> Any:
        return f(*args)

    return wrapper


def swaps(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def wrapper(force: bool, path: str, /) -> Any:
        return f(path, force)

    return wrapper


LYING = [takes_first, takes_first_and_names, takes_optional_first, swaps]


@pytest.mark.parametrize("decorate", LYING)
def test_a_wrapper_that_would_shift_the_arguments_is_refused(decorate: Callable[..., Any]) -> None:
    def delete(path: str, force: bool = False) -> str:
        return f"{path} {force}"

    with pytest.raises(UserError, match=r"shows the parameters \(path, force\)"):
        collect_tools([decorate(delete)])


@pytest.mark.parametrize("decorate", LYING)
def test_so_is_one_around_parameters_that_are_passed_by_position(decorate: Callable[..., Any]) -> None:
    def delete(path: str, /, force: bool = False) -> str:
        return f"{path} {force}"

    with pytest.raises(UserError, match=r"shows the parameters \(path, force\)"):
        collect_tools([decorate(delete)])


@pytest.mark.parametrize("decorate", LYING)
def test_so_is_one_around_a_method_and_one_in_an_object_with_a_call(decorate: Callable[..., Any]) -> None:
    class Files:
        @staticmethod
        @tool
        @decorate
        def delete(path: str, force: bool = False) -> str:
            return f"{path} {force}"

    class Delete:
        __call__ = staticmethod(decorate(lambda path, force=False: f"{path} {force}"))

    for entry in (Files(), Delete()):
        with pytest.raises(UserError, match=r"shows the parameters \(path, force\)"):
            collect_tools([entry])


def test_a_wrapper_of_positions_alone_passes_them_on() -> None:
    def bare(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def wrapper(*args: Any) -> Any:
            return f(*args)

        return wrapper

    @bare
    def delete(path: str, force: bool = False) -> str:
        return f"{path} {force}"

    assert run(delete, '{"path": "/a", "force": true}') == "/a True"


def test_a_wrapper_whose_own_first_parameters_are_the_shown_ones_gets_them() -> None:
    def logged(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def wrapper(ctx: Any, *args: Any) -> Any:
            return f(ctx, *args)

        return wrapper

    @logged
    def delete(ctx: ToolContext[Any], path: str, force: bool = False) -> str:
        return f"{ctx.run_id} {path} {force}"

    assert run(delete, '{"path": "/a", "force": true}', context()) == "r1 /a True"


def test_a_wrapper_of_a_method_with_its_own_name_for_self_gets_the_arguments() -> None:
    def bare(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def wrapper(this: Any, *args: Any) -> Any:
            return f(this, *args)

        return wrapper

    class Files:
        @tool
        @bare
        def delete(self, path: str, force: bool = False) -> str:
            return f"{path} {force}"

    assert run(Files().delete, '{"path": "/a", "force": true}') == "/a True"


# ---------------------------------------------------------------- caches


def test_a_cache_of_a_generator_is_refused_since_it_can_be_consumed_only_once() -> None:
    def pages(start: int) -> Iterator[int]:
        yield start

    async def later(start: int) -> AsyncIterator[int]:
        yield start

    for function in (pages, later):
        for cached in (functools.cache(function), functools.partial(functools.lru_cache(function))):
            with pytest.raises(UserError, match="consumed only once"):
                collect_tools([tool(name="pages")(cached)])
    assert one(pages).name == "pages"
