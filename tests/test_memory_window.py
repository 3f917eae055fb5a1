"""The window over a conversation: what it drops, what it protects, what it never parts (spec 13)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from surehand import (
    AssistantMessage,
    ChatMemory,
    InProcessStore,
    Message,
    MessageStore,
    MessageWindow,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    UserError,
    UserMessage,
)

SYSTEM, OTHER = SystemMessage("Be kind"), SystemMessage("Be brief")


def user(number: int) -> UserMessage:
    return UserMessage.of(f"u{number}")


def says(number: int) -> AssistantMessage:
    return AssistantMessage(f"a{number}")


def asks(*ids: str | None, provider: bool = False) -> AssistantMessage:
    return AssistantMessage(None, tuple(ToolCall(id, "t", "{}", provider) for id in ids))


def result(id: str | None) -> ToolMessage:
    return ToolMessage(id, "t", (TextContent("r"),), False)


def window_of(limit: int, *messages: Message, **options: Any) -> list[Message]:
    """What a window of that size shows after these messages were added one by one."""
    memory = MessageWindow(limit, **options)
    for message in messages:
        memory.add(message)
    return memory.messages()


def test_an_empty_window_has_nothing_and_a_default_id() -> None:
    memory = MessageWindow(3)
    assert (memory.messages(), memory.id) == ([], "default")
    assert isinstance(memory, ChatMemory)


def test_the_oldest_messages_go_first() -> None:
    assert window_of(3, user(1), says(1), user(2), says(2)) == [says(1), user(2), says(2)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_system_message_is_protected_wherever_it_stands(place: int) -> None:
    messages: list[Message] = [user(1), user(2), user(3), user(4)]
    messages.insert(place, SYSTEM)
    kept = window_of(2, *messages)
    assert kept == [SYSTEM, user(4)]


def test_a_window_of_one_with_a_system_message_keeps_only_that() -> None:
    assert window_of(1, SYSTEM, user(1), user(2)) == [SYSTEM]


def test_a_window_of_one_with_a_system_message_keeps_the_latest_exchange_with_results_too() -> None:
    round_of_tools = [asks("1"), result("1")]
    assert window_of(1, SYSTEM, user(1), *round_of_tools) == [SYSTEM, *round_of_tools]


def test_an_equal_system_message_changes_nothing_and_a_different_one_replaces_it() -> None:
    assert window_of(9, SYSTEM, user(1), SYSTEM) == [SYSTEM, user(1)]
    assert window_of(9, SYSTEM, user(1), OTHER) == [user(1), OTHER]
    assert window_of(9, SYSTEM, user(1), OTHER, system_first=True) == [OTHER, user(1)]
    assert window_of(9, user(1), SYSTEM, system_first=True) == [SYSTEM, user(1)]


def test_a_reply_with_calls_goes_together_with_its_results() -> None:
    exchange: list[Message] = [asks("1", "2"), result("1"), result("2")]
    assert window_of(4, user(1), *exchange, says(1)) == [*exchange, says(1)]
    assert window_of(3, user(1), *exchange, says(1)) == [says(1)]


def test_a_batch_is_evicted_once_at_its_end() -> None:
    memory = MessageWindow(3)
    memory.add(user(1))
    batch: list[Message] = [asks("1", "2", "3"), result("1"), result("2"), result("3")]
    memory.add_all(batch)
    assert memory.messages() == batch  # larger than the window, and still whole


@pytest.mark.parametrize("stray", [0, 1, 2, 3])
def test_a_result_without_its_call_is_not_shown_wherever_it_stands(stray: int) -> None:
    messages: list[Message] = [user(1), says(1), user(2)]
    messages.insert(stray, result("x"))
    assert window_of(9, *messages) == [user(1), says(1), user(2)]


def test_more_results_than_calls_are_not_shown() -> None:
    assert window_of(9, asks("1"), result("1"), result("1")) == [asks("1"), result("1")]
    provider = AssistantMessage("x", (ToolCall("p", "web", "{}", True), ToolCall("1", "t", "{}")))
    assert window_of(9, provider, result("1"), result("p")) == [provider, result("1")]


def test_no_window_of_any_size_parts_a_call_from_its_results() -> None:
    for sizes in itertools.product((0, 1, 2), repeat=3):
        messages: list[Message] = [SYSTEM]
        for number, size in enumerate(sizes):
            messages.append(user(number))
            if size:
                messages += [asks(*[f"{number}.{n}" for n in range(size)])]
                messages += [result(f"{number}.{n}") for n in range(size)]
            messages.append(says(number))
        for limit in range(1, len(messages) + 1):
            for kept in (window_of(limit, *messages), _batched(limit, messages)):
                assert _whole(kept), (limit, kept)
                assert kept[-1] == (SYSTEM if limit == 1 else messages[-1])


def _batched(limit: int, messages: Sequence[Message]) -> list[Message]:
    memory = MessageWindow(limit)
    memory.add_all(messages)
    return memory.messages()


def _whole(messages: Sequence[Message]) -> bool:
    waiting: list[str | None] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not waiting or waiting.pop(0) != message.call_id:
                return False
        elif waiting:
            return False
        elif isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.tool_calls]
    return not waiting


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "3"])
def test_a_size_that_is_no_count_is_refused(limit: Any) -> None:
    with pytest.raises(UserError, match=r"max_messages=.*expected a whole number of at least 1"):
        MessageWindow(limit)


def test_the_size_may_be_a_function_of_the_id_asked_each_time() -> None:
    sizes = {"ann": 1, "bob": 2}
    ann, bob = (MessageWindow(lambda id: sizes[id], id=id) for id in ("ann", "bob"))
    for memory in (ann, bob):
        memory.add_all([user(1), user(2)])
    assert (ann.messages(), bob.messages()) == ([user(2)], [user(1), user(2)])
    sizes["bob"] = 1
    assert bob.messages() == [user(2)]
    sizes["bob"] = 0
    with pytest.raises(UserError, match="max_messages=0"):
        bob.messages()


def test_looking_changes_nothing_in_the_store() -> None:
    store, sizes = InProcessStore(), [3]
    memory = MessageWindow(lambda id: sizes[0], store=store)
    memory.add_all([user(1), user(2), user(3)])
    sizes[0] = 1
    assert memory.messages() == [user(3)]
    assert store.get("default") == [user(1), user(2), user(3)]


def test_set_replaces_everything_and_refuses_nothing_at_all() -> None:
    memory = MessageWindow(2)
    memory.add(user(1))
    memory.set([user(2), user(3), user(4)])
    assert memory.messages() == [user(3), user(4)]
    with pytest.raises(UserError, match="expected at least one message; use clear"):
        memory.set([])


def test_clear_forgets() -> None:
    memory = MessageWindow(2)
    memory.add(user(1))
    memory.clear()
    assert memory.messages() == []


def test_a_store_keeps_conversations_apart_and_gives_copies() -> None:
    store = InProcessStore()
    assert isinstance(store, MessageStore)
    ann, bob = MessageWindow(5, id="ann", store=store), MessageWindow(5, id="bob", store=store)
    ann.add(user(1))
    bob.add(user(2))
    store.get("ann").append(user(9))
    ann.messages().append(user(9))
    assert (ann.messages(), bob.messages()) == ([user(1)], [user(2)])
    store.delete("ann")
    store.delete("ann")  # an unknown one is ignored
    assert (ann.messages(), bob.messages()) == ([], [user(2)])


def test_what_was_given_to_a_window_may_change_afterwards() -> None:
    memory, batch = MessageWindow(5), [user(1)]
    memory.add_all(batch)
    batch.append(user(2))
    assert memory.messages() == [user(1)]
