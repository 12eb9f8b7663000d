"""Changes of several steps, and those who wait for all of them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, RLock, Thread

from tests.faults.interrupted_lines import Interrupts, first_times

from frazil.repository.session.whole_changes import WholeChange, WholeChanges, _outer


class _Session:
    def __init__(self) -> None:
        self.lock = RLock()
        self.whole_changes = WholeChanges(self.lock)

    def wait(self) -> None:
        with self.lock:
            self.whole_changes.wait()


def _in_thread(act: Callable[[], None]) -> Thread:
    thread = Thread(target=act, daemon=True)
    thread.start()
    return thread


def test_one_waits_until_each_other_thread_has_ended_its_change() -> None:
    session, order = _Session(), list[str]()
    begun, go_on = [Event(), Event()], Event()

    def change(number: int) -> None:
        with WholeChange(session), WholeChange(session):
            begun[number].set()
            assert go_on.wait(60)
            order.append("change")

    threads = [_in_thread(lambda: change(0)), _in_thread(lambda: change(1))]
    assert all(event.wait(60) for event in begun)

    def wait() -> None:
        session.wait()
        order.append("waited")

    waiter = _in_thread(wait)
    go_on.set()
    for thread in (*threads, waiter):
        thread.join(60)
    assert order == ["change", "change", "waited"]


def test_a_change_begins_after_one_that_waits_but_within_a_change_at_once() -> None:
    session, order = _Session(), list[str]()
    waits, asked = Event(), Event()

    def wait() -> None:
        with session.lock:
            waits.set()  # no change begins between this and the wait, which the lock protects
            session.whole_changes.wait()
            order.append("waited")

    def change() -> None:
        asked.set()
        with WholeChange(session):
            order.append("second")

    with WholeChange(session):
        waiter = _in_thread(wait)
        assert waits.wait(60)
        second = _in_thread(change)
        assert asked.wait(60)
        with WholeChange(session):
            order.append("first")
    waiter.join(60)
    second.join(60)
    assert order == ["first", "waited", "second"]


def test_the_own_change_is_not_waited_for() -> None:
    session = _Session()
    with WholeChange(session):
        session.wait()


def test_a_change_or_a_wait_that_an_interrupt_stopped_keeps_nobody_waiting() -> None:
    session = _Session()

    def interrupted() -> None:
        with session.lock:
            session.whole_changes.begin(at_once=False)  # its turn is lost

    _in_thread(interrupted).join(60)
    waiter = _in_thread(session.wait)
    waiter.join(60)
    assert not waiter.is_alive()


def test_a_change_of_a_thread_that_holds_the_lock_does_not_release_it() -> None:
    """A rebase copies rows while another thread waits to commit."""
    session, order = _Session(), list[str]()
    begun, go_on, waits = Event(), Event(), Event()

    def change() -> None:
        with WholeChange(session):
            begun.set()
            assert go_on.wait(60)

    def wait() -> None:
        with session.lock:
            waits.set()
            session.whole_changes.wait()
            order.append("waited")

    changing = _in_thread(change)
    assert begun.wait(60)
    waiter = _in_thread(wait)
    assert waits.wait(60)
    with session.lock:  # the other one is waiting now
        go_on.set()
        with WholeChange(session):
            order.append("changed")
        order.append("released")
    waiter.join(60)
    changing.join(60)
    assert order == ["changed", "released", "waited"]


def test_who_is_within_no_change_waits_also_for_changes_that_wait() -> None:
    """Else a commit would take half of a change whose codec forks the session."""
    session, begun, go_on = _Session(), Event(), Event()

    def change() -> None:
        with session.lock:
            entries.append(session.whole_changes.begin(at_once=True))
        begun.set()
        assert go_on.wait(60)

    def wait_within() -> None:
        with WholeChange(session):
            session.wait()

    entries: list[object] = []
    first = _in_thread(change)
    assert begun.wait(60)
    second = _in_thread(wait_within)
    while not session.whole_changes._waiting:
        pass
    with session.lock:
        session.whole_changes.end(entries.pop())  # type: ignore[arg-type]
        assert session.whole_changes._go_on()
    go_on.set()
    for thread in (first, second):
        thread.join(60)
        assert not thread.is_alive()


def test_an_interrupt_at_any_line_leaves_no_thread_within_a_change() -> None:
    session = _Session()

    def change() -> None:
        with WholeChange(session):
            pass

    whole = Interrupts()
    assert whole.run(change)
    for number in first_times(whole.seen):
        Interrupts(number).run(change)
        assert _outer() is None, whole.seen[number]
        with session.lock:
            session.whole_changes.wait()
