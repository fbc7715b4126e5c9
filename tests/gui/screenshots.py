"""`python -m tests.gui.screenshots OUTDIR [NAME...]`: the window, light and dark, empty and full, two sizes.

NAME is SCENE-PALETTE-SIZE, as the files are called, or a part of it; `--readme` alone makes those that the
README shows, in resources/screenshots. No display is needed.
Everything in the pictures is made up, and the addresses are shown as the window shows them: tokens blanked.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

os.environ["QT_API"] = "pyside6"
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("TZ", "Europe/Amsterdam")
time.tzset()

import qasync  # noqa: E402
from PySide6.QtCore import Qt  # noqa: E402
from PySide6.QtGui import QImage, QPainter, QPalette  # noqa: E402
from PySide6.QtWidgets import QApplication, QDialog  # noqa: E402

from app.engine.status import Fact  # noqa: E402
from app.gui.application import Application  # noqa: E402
from app.gui.filters import Filter  # noqa: E402
from app.gui.theme import dark_palette, light_palette  # noqa: E402
from app.gui.window import Window  # noqa: E402
from tests.gui.day import needing, trading_day  # noqa: E402
from tests.gui.kit import StandIn  # noqa: E402

NOW = 1_772_465_400 * 1_000_000
SIZES = {"1280x800": (1280, 800), "1920x1080": (1920, 1080), "1024x700": (1024, 700)}
PALETTES: dict[str, Callable[[], QPalette]] = {"light": light_palette, "dark": dark_palette}


async def _settle(window: Window) -> None:
    """Until what was asked for has been read and painted."""
    for _ in range(12):
        await asyncio.sleep(0.05)


async def _empty(window: Window, engine: StandIn) -> None:
    return None


async def _full(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: trading_day(tx, NOW))
    engine.counts = {"signals": 51, "duplicates": 7, "refused": 4, "open": 1, "waiting": 1, "unresolved": 1}
    engine.announce(frozenset({"claims", "status"}))


def _chooses(view: str, row: int) -> Callable[[Window, StandIn], object]:
    async def scene(window: Window, engine: StandIn) -> None:
        await _full(window, engine)
        window.show_view(view)
        await _settle(window)
        window.views[view].table.choose(row)

    return scene


async def _filtered(window: Window, engine: StandIn) -> None:
    await _full(window, engine)
    window.show_view("orders")
    await _settle(window)
    wanted = Filter(text="BTC", chips=["filled"], span="day", sort="quantity")
    window.current.set_filter(wanted)
    await _settle(window)
    window.current.table.choose(0)


async def _needs(window: Window, engine: StandIn) -> None:
    await _full(window, engine)
    await engine.write(lambda tx: needing(tx, NOW))
    await _settle(window)
    window.show_needs()


async def _doubt(window: Window, engine: StandIn) -> None:
    await _needs(window, engine)
    window.needs.table.choose(1)


async def _deciding(window: Window, engine: StandIn) -> None:
    await _needs(window, engine)
    window.needs.table.choose(1)
    await _settle(window)
    window.decisions.actions["not_placed"].trigger()
    await _settle(window)


async def _trouble(window: Window, engine: StandIn) -> None:
    await _full(window, engine)
    await _trouble_facts(window, engine)
    window.doings.show_state("halted")
    window.notice.say(
        "Trading is halted: signals are claimed and shown, and nothing is placed. Already on the way: O50.",
        "warning",
    )


async def _trouble_facts(window: Window, engine: StandIn) -> None:
    engine.trading_state = "halted"
    engine.facts = [
        Fact("listener", "deaf", "error", "the port does not answer: it is being opened again, attempt 2"),
        Fact(
            "ledger", "full", "error", "the disk is full: free space; deliveries are answered 503 until then"
        ),
        Fact("account:paper", "ready", "ok", "reconciled, sends orders"),
        Fact(
            "account:alpaca-live",
            "failing",
            "error",
            "the broker answered 401 unauthorized: look at its keys",
        ),
        Fact("clock", "stepped", "warning", "the clock went forward by 3 min at once"),
        Fact("trading", "active", "ok", ""),
        Fact(
            "loop",
            "slow",
            "warning",
            "the program stood still for 312 ms within the last minute: answers may come late",
        ),
    ]
    engine.announce(frozenset({"status"}))


async def _readme(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: trading_day(tx, NOW, calm=True))
    engine.counts = {"signals": 49, "duplicates": 7, "refused": 4, "open": 1, "waiting": 0, "unresolved": 0}
    engine.announce(frozenset({"claims", "status"}))
    await _settle(window)
    window.current.table.choose(0)


VIEWS = (
    "needs",
    "signals",
    "refused",
    "orders",
    "fills",
    "positions",
    "reconciliation",
    "activity",
    "health",
)


def _empty_view(view: str) -> Callable[[Window, StandIn], object]:
    async def scene(window: Window, engine: StandIn) -> None:
        window.show_view(view)

    return scene


def _full_view(view: str) -> Callable[[Window, StandIn], object]:
    """More than fits, with what is long and what is wrong."""

    async def scene(window: Window, engine: StandIn) -> None:
        await engine.write(lambda tx: trading_day(tx, NOW, quiet_rows=400))
        await engine.write(lambda tx: needing(tx, NOW))
        engine.counts = {"signals": 412_506, "duplicates": 9_120, "refused": 318, "open": 12, "waiting": 3}
        await _trouble_facts(window, engine)
        window.show_view(view)
        await _settle(window)
        window.views[view].table.choose(0)

    return scene


SCENES: dict[str, Callable[[Window, StandIn], object]] = {
    **{f"{view}-empty": _empty_view(view) for view in VIEWS},
    **{f"{view}-full": _full_view(view) for view in VIEWS},
    "empty": _empty,
    "signals": _chooses("signals", 0),
    "needs": _needs,
    "doubt": _doubt,
    "deciding": _deciding,
    "ambiguous": _chooses("signals", 2),
    "refused": _chooses("refused", 0),
    "invalid": _chooses("refused", 4),
    "orders": _chooses("orders", 3),
    "reconciliation": _chooses("reconciliation", 0),
    "fills": _chooses("fills", 0),
    "positions": _chooses("positions", 0),
    "activity": _chooses("activity", 0),
    "health": _chooses("health", 0),
    "filtered": _filtered,
    "trouble": _trouble,
    "readme": _readme,
}


async def _picture(out: Path, scene: str, palette: str, size: str) -> None:
    QApplication.setPalette(PALETTES[palette]())
    with tempfile.TemporaryDirectory() as home:
        engine = StandIn(Path(home), NOW)
        await engine.start()
        window = Window(engine)
        window.resize(*SIZES[size])
        window.show()
        await _settle(window)
        await SCENES[scene](window, engine)  # type: ignore[misc]
        await _settle(window)
        picture = window.grab()
        for dialog in window.findChildren(QDialog):
            # A dialog is a window of its own: it is put where it stands over its parent.
            with QPainter(picture) as painter:
                painter.drawPixmap(window.rect().center() - dialog.rect().center(), dialog.grab())
        picture.save(str(out / f"{scene}-{palette}-{size}.png"))
        await window.shut()
        await engine.close()


async def _all(out: Path, wanted: list[str]) -> None:
    for size in SIZES:
        for palette in PALETTES:
            for scene in SCENES:
                name = f"{scene}-{palette}-{size}"
                if not wanted or any(each in name for each in wanted):
                    await _picture(out, scene, palette, size)


README = {
    "window.png": "readme-light-1280x800",
    "needs-you.png": "doubt-dark-1280x800",
    "health.png": "health-light-1280x800",
}
WITHOUT_DITHER = Qt.ImageConversionFlag.AvoidDither | Qt.ImageConversionFlag.ThresholdDither
KEPT = Path(__file__).parents[2] / "resources" / "screenshots"


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__)
        return 2
    if arguments == ["--readme"]:
        with tempfile.TemporaryDirectory() as made:
            code = main([made, *README.values()])
            for name, picture in README.items():
                # A palette is enough for a window, and a quarter of the size.
                image = QImage(str(Path(made) / f"{picture}.png"))
                pixels = image.convertToFormat(QImage.Format.Format_RGB32)
                counted = Counter(memoryview(pixels.constBits()).cast("I"))
                colours = [colour for colour, _number in counted.most_common(256)]
                few = pixels.convertToFormat(QImage.Format.Format_Indexed8, colours, WITHOUT_DITHER)
                few.save(str(KEPT / name), "PNG", 0)  # type: ignore[call-overload]
        return code
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    application = Application(sys.argv[:1])
    with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner:
        runner.run(_all(out, arguments[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
