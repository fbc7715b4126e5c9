"""The Test buttons: a source is asked through its own door, an account who it is. What came of it, in words.

No order is sent where money could be reached: there only the door is asked.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import aiohttp

from app.engine import sample
from app.gui.ports import EngineView
from app.gui.sample_outcome import outcome, sample_level, sample_text
from app.gui.words import tr

Tried = tuple[str, str, str | None]
"""Text, level, and the id of what came of it."""

PATIENCE_SECONDS = 5.0


async def try_source(engine: EngineView, name: str) -> Tried:
    """Posts the sample to a source that reaches only paper; else asks whether the door answers there."""
    settings = engine.settings
    source = settings.source(name)
    address = next((each.local for each in engine.hook_addresses() if each.source == name), None)
    if source is None or address is None:
        return (
            tr("{name} is not open yet: it is there after the next start.").format(name=name),
            "warning",
            None,
        )
    if settings.reaches_live(source):
        heard = await _door_answers(address)
        text = tr("The door answers at the address of {name}. Nothing was sent: money is behind this source.")
        return (text.format(name=name), "ok", None) if heard else (_deaf(name), "error", None)
    if source.auth == "body":
        heard = await _door_answers(address)
        text = tr(
            "The door answers at the address of {name}. Nothing was sent: the message has to hold its secret."
        )
        return (text.format(name=name), "ok", None) if heard else (_deaf(name), "error", None)
    answer = await sample.post(address, sample.sample_body(engine.clock.now()))
    orders = await outcome(engine, answer)
    signal = answer.body.get("signal")
    text = sample_text(answer, orders)
    return text, sample_level(answer, orders), signal if isinstance(signal, str) else None


def _deaf(name: str) -> str:
    return tr("Nothing answered at the address of {name}. Look at Listener in the window.").format(name=name)


async def _door_answers(address: str) -> bool:
    """Whether the door behind an address is open; nothing is posted to it."""
    parts = urlsplit(address)
    timeout = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.get(f"{parts.scheme}://{parts.netloc}/healthz", allow_redirects=False) as response,
        ):
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def try_account(engine: EngineView, name: str) -> Tried:
    """Logs in and asks whose account it is; the mode is what the settings in force say."""
    answer = await engine.command(
        "test account", {"account": name}, actor="window", request_id=f"test {name}"
    )
    mode = tr("real money") if answer["live"] else tr("no money")
    text = tr("{name} answers: account {identity} at {endpoint}, {mode}. Cash {cash}, equity {equity}.")
    said = text.format(
        name=name,
        identity=answer["identity"],
        endpoint=answer["endpoint"],
        mode=mode,
        cash=answer["cash"],
        equity=answer["equity"],
    )
    return said, "ok", None


async def try_notice(engine: EngineView, name: str) -> Tried:
    """Sends a test to one receiver of notices, as the settings in force have it."""
    answer = await engine.command(
        "notice test", {"name": name}, actor="window", request_id=f"test notice {name}"
    )
    (outcome_of_it,) = answer["notices"]
    if outcome_of_it["sent"]:
        return tr("{name} has taken the test notice. Look whether you see it.").format(name=name), "ok", None
    text = tr("The test notice to {name} did not arrive: {why}.")
    return text.format(name=name, why=outcome_of_it["why"]), "error", None
