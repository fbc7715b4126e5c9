"""While the window runs, Python's cycle collector runs on its thread and no other."""

from __future__ import annotations

import gc
import threading
import weakref

from PySide6.QtWidgets import QApplication

from app.gui.garbage import MainThreadGarbage


class Knot:
    """Refers to itself: only the cycle collector can free it."""

    def __init__(self) -> None:
        self.itself = self


def test_another_thread_collects_nothing_and_this_one_does(qapp: QApplication) -> None:
    gc.enable()
    with MainThreadGarbage() as garbage:
        assert not gc.isenabled()
        knot = weakref.ref(Knot())

        def allocate() -> None:
            kept = [[] for _ in range(5 * gc.get_threshold()[0])]  # type: ignore[var-annotated]
            del kept
            for _ in range(5 * gc.get_threshold()[0]):
                Knot()

        thread = threading.Thread(target=allocate)
        thread.start()
        thread.join()
        assert knot() is not None
        assert garbage.collect() == 0
        assert knot() is None
        assert garbage.collect() is None
    assert gc.isenabled()


def test_older_generations_have_their_turn(qapp: QApplication) -> None:
    with MainThreadGarbage() as garbage:
        ages = set()
        for _ in range(2 * gc.get_threshold()[1]):
            knots = [Knot() for _ in range(2 * gc.get_threshold()[0])]
            ages.add(garbage.collect())
            del knots
        assert ages >= {0, 1}
