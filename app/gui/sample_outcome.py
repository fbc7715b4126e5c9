"""What became of the test signal: the door's answer, and where its orders stand once they have settled.

An accepted signal is only claimed: nothing here calls it well before its order has been looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import apsw

from app.engine import SampleAnswer
from app.gui.ports import EngineView
from app.gui.theme import Tone
from app.gui.words import VERDICTS, Word, look_up, order_word, tr
from app.ledger.reader import Row, read

PATIENCE_SECONDS = 3.0
"""An order that has not settled by then is told of as it stands."""
_MOVING = frozenset({"PENDING", "SUBMITTING", "WORKING"})
_FINE = frozenset({Tone.GOOD, Tone.WORKING})


async def outcome(engine: EngineView, answer: SampleAnswer) -> list[Row]:
    """The orders of the signal that was just accepted, settled or as they stand when patience ends."""
    signal = answer.body.get("signal")
    if answer.body.get("status") != "accepted" or not isinstance(signal, str):
        return []
    changed = asyncio.Event()
    end = engine.listen(lambda _topics: changed.set())
    orders: list[Row] = []
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                changed.clear()
                orders = await engine.reader.call(lambda connection: _orders(connection, signal))
                if orders and not any(order["state"] in _MOVING for order in orders):
                    break
                await changed.wait()
    except TimeoutError:
        pass  # told as they stand
    finally:
        end()
    return orders


def _orders(connection: apsw.Connection, signal: str) -> list[Row]:
    sql = "SELECT id, state, ord_status, reason FROM v_orders WHERE signal = ? ORDER BY number"
    return read(connection, sql, (signal,))


def sample_level(answer: SampleAnswer, orders: Sequence[Row]) -> str:
    """Of the notice: ok only where nothing stands in the way of the order."""
    if answer.status == 0:
        return "error"
    fine = all(_word(order).tone in _FINE for order in orders)
    return "ok" if answer.status == 200 and fine else "warning"


def sample_text(answer: SampleAnswer, orders: Sequence[Row]) -> str:
    """What the door answered and what became of it, in words."""
    body = answer.body
    if answer.status == 0:
        return tr("Nothing answered the test signal ({why}). Look at Listener above.").format(
            why=body.get("reason", "")
        )
    signal = body.get("signal")
    denied = [order for order in orders if order["state"] == "DENIED"]
    if signal and denied:
        text = tr("Test signal: claimed as {signal}, and its order was denied: {why}.")
        return text.format(signal=signal, why=denied[0]["reason"])
    word = look_up(VERDICTS, str(body.get("status")))
    text = tr("Test signal: answered {status}, {word}").format(
        status=answer.status, word=tr(word.text).lower()
    )
    if signal:
        text += tr(" as {signal}").format(signal=signal)
    if orders:
        states = ", ".join(_named(order) for order in orders)
        return tr("{text}. Its order: {states}.").format(text=text, states=states)
    why = ", ".join(str(body[name]) for name in ("reason", "detail") if body.get(name))
    return f"{text}: {why}." if why else f"{text}."


def _named(order: Row) -> str:
    word = tr(_word(order).text).lower()
    return f"{word} ({order['reason']})" if order["reason"] else word


def _word(order: Row) -> Word:
    return order_word(order["state"], order["ord_status"], order["reason"])
