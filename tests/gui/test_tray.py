"""The tray: a shape and words for each state, the kill switch in reach, and messages on this screen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QMessageBox, QSystemTrayIcon

from app.engine.status import Fact
from app.gui.theme import dark_palette, light_palette
from app.gui.tray import SHOWN_MS, Tray, tray_state, tray_text
from app.gui.tray_icon import SIZES, TrayState, tray_icon
from app.gui.window import Window
from app.ledger.needs import Need
from app.notify import Message
from app.notify.item import CRITICAL
from tests.gui.hands import until
from tests.gui.kit import StandIn


class FakeIcon(QSystemTrayIcon):
    """Of a desktop with a tray; what the tests' own platform has none of."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[str, str]] = []
        self.speaks = True
        self.shown = False

    def show(self) -> None:
        self.shown = True

    def hide(self) -> None:
        self.shown = False

    def supportsMessages(self) -> bool:  # type: ignore[override]
        return self.speaks

    def showMessage(self, title: str, msg: str, *_: object) -> None:
        self.said.append((title, msg))


class Desk:
    """A window, its tray, and what a person presses there."""

    def __init__(self, window: Window, engine: StandIn) -> None:
        self.window, self.engine = window, engine
        self.is_there = True
        self.needs: list[Need] = []
        self.quits: list[str] = []
        self.icon = FakeIcon()
        self.tray = self._tray()

    def _tray(self) -> Tray:
        return Tray(
            self.window,
            self.engine.status,
            lambda: self.needs,
            self.quits.append,
            icon=self.icon,
            is_there=lambda: self.is_there,
        )


@pytest.fixture
async def desk(window: Window, engine: StandIn) -> AsyncIterator[Desk]:
    made = Desk(window, engine)
    yield made
    made.tray.end()


def shown(desk: Desk) -> TrayState | None:
    return desk.tray.state


def need(text: str = "O7 needs you.") -> Need:
    return Need(kind="exit_lost", severity="critical", subject="O7", text=text, since="")


def drawn(state: TrayState, size: int, *, dark: bool = False) -> QImage:
    icon = tray_icon(state, dark_palette() if dark else light_palette())
    return icon.pixmap(size, size).toImage()


def shape(image: QImage) -> list[bool]:
    """Where there is something, and where in it something is drawn: the picture without its colours."""
    places = [(x, y) for y in range(image.height()) for x in range(image.width())]
    colours = {place: image.pixelColor(*place) for place in places}
    solid = [colours[place].lightness() for place in places if colours[place].alpha() > 128]
    ground = Counter(solid).most_common(1)[0][0]
    outline = [colours[place].alpha() > 128 for place in places]
    inside = [
        colours[place].alpha() > 128 and abs(colours[place].lightness() - ground) > 60 for place in places
    ]
    return outline + inside


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dark", [False, True])
def test_every_state_has_a_shape_of_its_own(qapp: object, size: int, dark: bool) -> None:
    shapes = {state: shape(drawn(state, size, dark=dark)) for state in TrayState}
    for state, one in shapes.items():
        assert any(one)
        for other, another in shapes.items():
            if state is not other:
                differing = sum(a != b for a, b in zip(one, another, strict=True))
                assert differing > len(one) * 0.02, (state, other)


async def test_it_follows_what_the_engine_says(desk: Desk, engine: StandIn) -> None:
    assert desk.icon.shown
    assert shown(desk) is TrayState.OK
    assert desk.icon.toolTip().splitlines() == ["Onefill. Trading: Active", "Nothing needs you"]
    engine.trading_state = "halted"
    desk.tray.look()
    assert shown(desk) is TrayState.HALTED
    engine.trading_state = "exits_only"
    desk.tray.look()
    assert shown(desk) is TrayState.EXITS_ONLY
    desk.needs = [need(), need("O8 needs you.")]
    desk.tray.look()
    assert shown(desk) is TrayState.ATTENTION
    assert "Trading: Exits only" in desk.icon.toolTip()
    assert "Needs you: 2" in desk.icon.toolTip()
    assert desk.tray.needs.text() == "What &needs you (2)"
    desk.needs = []
    engine.facts.append(Fact("tunnel", "down", "error", "cloudflared: it ended"))
    desk.tray.look()
    assert shown(desk) is TrayState.ATTENTION
    assert "Tunnel: Down" in desk.icon.toolTip()


async def test_it_looks_by_itself(desk: Desk, engine: StandIn) -> None:
    engine.trading_state = "halted"
    await until(lambda: desk.tray.state is TrayState.HALTED)


async def test_halt_acts_at_once_and_takes_nobody_to_the_window(desk: Desk, engine: StandIn) -> None:
    desk.window.hide()
    desk.tray.halt.trigger()
    await until(lambda: engine.trading_state == "halted")
    assert engine.commands[0][:2] == ("halt", {"exits_only": False})
    desk.tray.look()
    assert not desk.window.isVisible()
    assert not desk.tray.halt.isEnabled()
    assert desk.tray.resume.isEnabled()


async def test_a_halt_that_failed_is_shown(desk: Desk, engine: StandIn) -> None:
    desk.window.hide()
    engine.refuse = "the ledger cannot take it now: full"
    desk.tray.halt.trigger()
    await until(desk.window.isVisible)
    assert "cannot take it" in desk.window.notice.text


async def test_resume_asks_in_the_window_and_nothing_dangerous_is_the_default(
    desk: Desk, engine: StandIn
) -> None:
    engine.trading_state = "halted"
    desk.window.hide()
    desk.tray.look()
    desk.tray.resume.trigger()
    await until(lambda: desk.window.findChildren(QMessageBox))
    assert desk.window.isVisible()
    (box,) = desk.window.findChildren(QMessageBox)
    assert box.defaultButton().text() == "Stay as it is"
    box.defaultButton().click()
    await until(lambda: not desk.window.findChildren(QMessageBox))
    assert engine.trading_state == "halted"


async def test_exits_only_asks_only_where_it_lets_exits_out_again(desk: Desk, engine: StandIn) -> None:
    desk.window.hide()
    desk.tray.exits_only.trigger()
    await until(lambda: engine.trading_state == "exits_only")
    assert not desk.window.isVisible()


async def test_the_rest_of_the_menu(desk: Desk) -> None:
    desk.window.hide()
    desk.tray.open.trigger()
    assert desk.window.isVisible()
    desk.window.show_view("orders")
    desk.tray.needs.trigger()
    assert desk.window.current.definition.name == "needs"
    desk.tray.quit.trigger()
    assert desk.quits == ["tray"]
    assert desk.icon.contextMenu() is desk.tray.menu


async def test_a_click_on_the_icon_or_on_a_message_opens_the_window(desk: Desk) -> None:
    desk.window.hide()
    desk.icon.activated.emit(QSystemTrayIcon.ActivationReason.Context)
    assert not desk.window.isVisible()
    desk.icon.activated.emit(QSystemTrayIcon.ActivationReason.Trigger)
    assert desk.window.isVisible()
    desk.window.hide()
    desk.icon.messageClicked.emit()
    assert desk.window.isVisible()
    assert desk.window.current.definition.name == "needs"


async def test_a_notice_is_shown_beside_the_tray_or_else_by_the_window(desk: Desk) -> None:
    message = Message("Onefill needs you now", "- O7 needs you.", CRITICAL)
    assert desk.tray.tell(message)
    assert desk.icon.said == [("Onefill needs you now", "- O7 needs you.")]
    assert SHOWN_MS >= 5_000
    desk.icon.speaks = False
    assert desk.tray.tell(message), "the window is there and asks for attention"
    desk.window.hide()
    assert not desk.tray.tell(message), "nobody would see it: it is told later"


async def test_a_tray_that_comes_late_is_waited_for(
    window: Window, engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.gui.tray.AGAIN_MS", 10)
    made = Desk.__new__(Desk)
    made.is_there = False
    made.window, made.engine, made.needs, made.quits, made.icon = window, engine, [], [], FakeIcon()
    tray = made._tray()
    await asyncio.sleep(0.05)
    assert (tray.is_shown, tray.can_keep(), made.icon.shown) == (False, False, False)
    made.is_there = True
    await until(lambda: tray.is_shown)
    assert made.icon.shown
    made.is_there = False
    assert not tray.can_keep(), "a tray may go"
    tray.end()


def test_a_stop_is_said(unstarted: StandIn) -> None:
    import msgspec

    status = msgspec.structs.replace(unstarted.status(), state="stopping")
    assert tray_state(status, 3) is TrayState.STOPPING
    assert tray_text(status, []) == "Onefill is stopping"
