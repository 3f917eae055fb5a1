"""The booking service as its clients see it: a real server in a process of its own, a real client, a real socket."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from surehand.testing import say

from .serving import Server, Told, until

BOOKED = ["seat booked", "card charged"]
UNDONE = [*BOOKED, "card refunded", "seat cancelled"]


def fresh(run_id: str) -> list[Told]:
    """What is told of a run while it happens."""
    return [
        ("text", f"{run_id}:1", {"text": "Let "}),
        ("text", f"{run_id}:1", {"text": "me "}),
        ("text", f"{run_id}:1", {"text": "see."}),
        ("tool_started", f"{run_id}:1.0", {"tool": "book_seat", "arguments": '{"city":"Oslo"}'}),
        ("tool_finished", f"{run_id}:1.0", {"tool": "book_seat", "outcome": "done"}),
        ("tool_started", f"{run_id}:2.0", {"tool": "charge_card", "arguments": '{"euros":95}'}),
        ("tool_finished", f"{run_id}:2.0", {"tool": "charge_card", "outcome": "done"}),
        ("text", f"{run_id}:3", {"text": "You "}),
        ("text", f"{run_id}:3", {"text": "fly "}),
        ("text", f"{run_id}:3", {"text": "to "}),
        ("text", f"{run_id}:3", {"text": "Oslo."}),
        ("finished", f"{run_id}:end", {"output": "You fly to Oslo."}),
    ]


def again(run_id: str) -> list[Told]:
    """What is told of it to whoever joins it, or comes later."""
    return [
        ("text", f"{run_id}:1", {"text": "Let me see."}),
        ("tool_finished", f"{run_id}:1.0", {"tool": "book_seat", "outcome": "done"}),
        ("tool_finished", f"{run_id}:2.0", {"tool": "charge_card", "outcome": "done"}),
        ("text", f"{run_id}:3", {"text": "You fly to Oslo."}),
        ("finished", f"{run_id}:end", {"output": "You fly to Oslo."}),
    ]


def asked_once(run_id: str) -> list[str]:
    return [f"{run_id} reply {number}" for number in (1, 2, 3)]


def succeeded(run_id: str) -> tuple[int, dict[str, str]]:
    return 200, {"run_id": run_id, "state": "SUCCEEDED", "output": "You fly to Oslo."}


def given_up(because: str) -> dict[str, object]:
    """The account of a run that had booked and paid."""
    done = ["book_seat", "charge_card"]
    return {"because": because, "done": done, "undone": done, "failed_to_undo": [], "unknown": [], "standing": []}


CANCELLED = "RunCancelled: run {0!r} was cancelled"

# ------------------------------------------------------------ one run


def test_a_run_is_streamed_as_server_sent_events_while_it_happens(server: Server) -> None:
    server.hold("plain reply 3")
    with server.put("plain") as events:
        before = [next(events) for _ in range(7)]
        server.wait_for("plain reply 3")
        at_work = server.get("plain")
        server.let_go("plain reply 3")
        told = [*before, *events]
    assert told == fresh("plain")
    assert at_work == (202, {"run_id": "plain", "state": "RUNNING"})
    assert server.get("plain") == succeeded("plain")
    assert server.done("plain") == BOOKED


def test_a_run_that_fails_says_what_became_of_what_it_did(server: Server) -> None:
    told = server.told("failing")
    because = "NetworkError: the line is dead"
    assert told == [*fresh("failing")[:7], ("failed", "failing", given_up(because))]
    assert server.get("failing") == (410, given_up(because))
    assert server.done("failing") == UNDONE


def test_a_run_that_nobody_has_begun_is_not_found(server: Server) -> None:
    assert server.get("nobody") == (404, {"detail": "there is no run 'nobody'"})


def test_a_run_that_is_taken_over_by_another_process_is_interrupted_and_not_undone(server: Server) -> None:
    server.hold("taken reply 3")
    with server.put("taken") as events:
        server.wait_for("taken reply 3")
        assert server.take_over("taken", [say("You fly to Oslo.")]) == "You fly to Oslo."
        server.let_go("taken reply 3")
        assert [(name, id) for name, id, _ in events][-1] == ("interrupted", "taken")
    assert server.get("taken") == succeeded("taken")
    assert server.done("taken") == BOOKED


# ------------------------------------------------------------ tried again by its client


def test_a_run_that_is_over_is_told_again_and_nothing_runs_twice(server: Server) -> None:
    assert server.told("twice") == fresh("twice")
    assert [server.told("twice") for _ in range(2)] == [again("twice")] * 2
    assert server.done("twice") == BOOKED
    assert server.asked("twice") == asked_once("twice")


def test_a_run_that_is_at_work_is_joined_and_nothing_runs_twice(server: Server) -> None:
    server.hold("joined reply 3")
    with server.put("joined") as first, server.put("joined") as second:
        heard = [next(second) for _ in range(3)]
        server.let_go("joined reply 3")
        assert [*heard, *second] == again("joined")
        assert list(first) == fresh("joined")
    assert server.done("joined") == BOOKED
    assert server.asked("joined") == asked_once("joined")


def test_the_same_id_with_another_wish_is_a_conflict(server: Server) -> None:
    server.told("conflict")
    refused = server.refused("conflict", wish="to Rome")
    assert refused.status_code == 409
    assert "begun with other input" in refused.json()["detail"]
    assert server.done("conflict") == BOOKED


# ------------------------------------------------------------ left by its client


def test_the_client_that_has_begun_a_run_cancels_it_by_leaving(server: Server) -> None:
    server.hold("left reply 3")
    with server.put("left"):
        server.wait_for("left reply 3")
        assert server.done("left") == BOOKED
    assert server.ended("left") == (410, given_up(CANCELLED.format("left")))
    assert server.done("left") == UNDONE


def test_a_tool_that_runs_when_the_client_leaves_is_let_finish_and_undone(server: Server) -> None:
    server.hold("before card charged amid:2.0")
    with server.put("amid"):
        server.wait_for("before card charged amid:2.0")
    server.hold("after card charged amid:2.0")
    server.let_go("before card charged amid:2.0")
    server.wait_for("after card charged amid:2.0")
    server.let_go("after card charged amid:2.0")
    assert server.ended("amid") == (410, given_up(CANCELLED.format("amid")))
    assert server.done("amid") == UNDONE


def test_a_run_that_was_cancelled_is_not_begun_again_under_its_id(server: Server) -> None:
    server.hold("regretted reply 3")
    with server.put("regretted"):
        server.wait_for("regretted reply 3")
    server.ended("regretted")
    refused = server.refused("regretted")
    assert (refused.status_code, refused.json()) == (410, given_up(CANCELLED.format("regretted")))
    assert server.done("regretted") == UNDONE


def test_a_client_that_has_joined_a_run_changes_nothing_by_leaving(server: Server) -> None:
    server.hold("visited reply 3")
    with server.put("visited") as first:
        server.wait_for("visited reply 3")
        with server.put("visited") as second:
            assert [next(second) for _ in range(3)] == again("visited")[:3]
        server.wait_until_left("visited")
        server.let_go("visited reply 3")
        assert list(first) == fresh("visited")
    assert server.done("visited") == BOOKED


def test_who_has_joined_a_run_hears_that_the_client_who_began_it_has_cancelled_it(server: Server) -> None:
    server.hold("watched reply 3")
    with ExitStack() as first:
        first.enter_context(server.put("watched"))
        with server.put("watched") as second:
            assert [next(second) for _ in range(3)] == again("watched")[:3]
            first.close()
            assert list(second) == [("failed", "watched", given_up(CANCELLED.format("watched")))]
    assert server.done("watched") == UNDONE


def test_a_detached_run_goes_on_when_its_client_leaves(server: Server) -> None:
    server.hold("detached reply 3")
    with server.put("detached", detach=True):
        server.wait_for("detached reply 3")
    server.wait_until_left("detached")
    assert server.get("detached") == (202, {"run_id": "detached", "state": "RUNNING"})
    with server.put("detached") as again_here:
        server.let_go("detached reply 3")
        assert list(again_here) == again("detached")
    assert server.done("detached") == BOOKED
    assert server.asked("detached") == asked_once("detached")


# ------------------------------------------------------------ its server is killed


@pytest.mark.parametrize("run_id", ["in-seat", "before-charge", "after-charge", "between"])
def test_who_asks_again_after_the_server_was_killed_gets_the_answer(restarted: Server, run_id: str) -> None:
    assert restarted.told(run_id)[-1] == fresh(run_id)[-1]
    assert restarted.get(run_id) == succeeded(run_id)
    assert restarted.done(run_id) == BOOKED
    lost = ["between reply 3"] if run_id == "between" else []  # the only reply that was under way
    assert restarted.asked(run_id) == asked_once(run_id) + lost


def test_a_run_whose_server_was_killed_is_gone_on_with_though_nobody_asks(restarted: Server) -> None:
    assert restarted.ended("unwatched") == succeeded("unwatched")
    assert restarted.done("unwatched") == BOOKED
    assert restarted.asked("unwatched") == asked_once("unwatched")


def test_a_run_that_only_somebody_else_can_settle_waits_and_says_for_what(restarted: Server) -> None:
    waits = ("waiting", "doubtful:end", {"for": ["doubtful:1.0"]})
    assert [restarted.told("doubtful")[-1] for _ in range(2)] == [waits, waits]
    assert restarted.get("doubtful") == (202, {"run_id": "doubtful", "state": "SUSPENDED"})


def test_who_asks_again_after_the_server_was_killed_cancels_nothing_by_leaving(killable: Server) -> None:
    for run_id in ("first", "second"):
        killable.hold(f"{run_id} reply 3")
    with killable.put("first"), killable.put("second"):
        for run_id in ("first", "second"):
            killable.wait_for(f"{run_id} reply 3")
        killable.kill()
    killable.start()
    # The service itself is held up by the first run, so it is this client who goes on with the second one.
    with killable.put("second") as events:
        assert [next(events) for _ in range(3)] == again("second")[:3]
    killable.wait_until_left("second")
    killable.let_go("second reply 3")
    assert killable.ended("second") == succeeded("second")
    assert killable.done("second") == BOOKED


def test_a_server_that_is_told_to_stop_finishes_what_goes_on_without_a_client(killable: Server) -> None:
    killable.hold("late reply 3")
    with killable.put("late", detach=True):
        killable.wait_for("late reply 3")
    killable.wait_until_left("late")
    killable.stop()
    until(lambda: "Waiting for application shutdown" in killable.log)
    killable.let_go("late reply 3")
    killable.wait_until_stopped()
    assert killable.recorded("late") == "SUCCEEDED"
    assert "Traceback" not in killable.log
