"""What a person's decision will do and has done, in sentences with numbers, from the engine's own answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import apsw

from app.gui.formats import grouped, local_time
from app.gui.words import tr
from app.ledger.reader import read

Answer = Mapping[str, Any]
Say = Callable[[Answer], str]


def resolved(answer: Answer) -> str:
    text = tr("{order} is {state} now, it was {was}").format(**answer)
    if answer["state"] == "AMBIGUOUS":
        text += tr("; the broker is being asked")
    if str(answer.get("filled_quantity", "0")) != "0":
        text += tr("; {filled} filled").format(filled=answer["filled_quantity"])
    return f"{text}."


def replayed(answer: Answer) -> str:
    lines = []
    for one in answer["replayed"]:
        how = tr("under the same id") if one["same_id"] else tr("as {new}").format(new=one["as"])
        what = tr("{order} ({symbol} in {account}) goes out again {how}; it was {was}")
        text = what.format(how=how, **{name: one[name] for name in ("order", "symbol", "account", "was")})
        lines.append(f"{text} ({one['reason']})." if one["reason"] else f"{text}.")
    lines += [tr("Left out: {order}, {why}.").format(**one) for one in answer["left_out"]]
    return "\n".join(lines)


def admitted(answer: Answer) -> str:
    if answer["collapsed"]:
        return tr("{delivery} is the same as {signal}, admitted before: nothing more is placed.").format(
            delivery=answer["delivery"], signal=answer["signal"]
        )
    orders = answer["outcome"]["orders"]
    made = ", ".join(f"{one['symbol']} in {one['account']}" for one in orders)
    text = tr("{delivery} becomes the signal {signal} with {number} orders: {made}.")
    if len(orders) == 1:
        text = tr("{delivery} becomes the signal {signal} with 1 order: {made}.")
    return text.format(delivery=answer["delivery"], signal=answer["signal"], number=len(orders), made=made)


def put_away(answer: Answer) -> str:
    return tr("Put away: {ids}.").format(ids=", ".join(answer["dismissed"]))


def canceled(answer: Answer) -> str:
    if answer["asked_the_broker"]:
        text = tr("{order} was {was}: the broker is asked to cancel it; until it says so it may still fill.")
    else:
        text = tr("{order} was {was}: it was not sent and will not be.")
    return text.format(order=answer["order"], was=answer["was"])


def closed(answer: Answer) -> str:
    lines = [_exit(one) for one in answer["orders"]]
    lines += [tr("Under way already: {exit}").format(exit=_exit(one)) for one in answer["already"]]
    if not lines:
        lines.append(tr("Nothing of ours is open in {account}.").format(account=answer["account"]))
    lines += [
        tr("Not ours, not touched: {quantity} {symbol} (as of {at}).").format(
            quantity=one["quantity"], symbol=one["symbol"], at=local_time(one["as_of"])
        )
        for one in answer["not_ours"]
    ]
    return "\n".join(lines)


def _exit(one: Answer) -> str:
    whose = " ".join(part for part in (one["source"], one["strategy"]) if part)
    where = tr("{symbol} in {account}, of {whose}").format(
        symbol=one["symbol"], account=one["account"], whose=whose
    )
    if one["side"]:
        text = f"{tr(one['side'])} {str(one['book']).removeprefix('-')} {where}"
    else:
        text = tr("whatever is open by then on {where}").format(where=where)
    if one["waits_for"]:
        text += tr(", once {orders} is over").format(orders=", ".join(one["waits_for"]))
    return f"{text}."


def booked(answer: Answer) -> str:
    whose = " ".join(part for part in (answer["source"], answer["strategy"]) if part)
    text = tr("The book of {whose} on {symbol} in {account}: {quantity} instead of {was} ({difference}).")
    return text.format(whose=whose, **{name: answer[name] for name in _BOOK}) + tr(" Nothing is sent.")


_BOOK = ("symbol", "account", "quantity", "was", "difference")


def acknowledged(answer: Answer) -> str:
    if "symbol" in answer:
        text = tr("{difference} {symbol} in {account} is none of ours; it holds no entry back any more.")
        return text.format(**{name: answer[name] for name in ("difference", "symbol", "account")})
    text = tr("{account} is account {number} and may send.")
    if answer["live"]:
        text = tr("{account} is account {number}, trades money, and may send.")
    text = text.format(account=answer["account"], number=answer["identity"])
    if answer["was"] and answer["was"] != answer["identity"]:
        text += tr(" It was {number} before; orders sent there are for you to decide.").format(
            number=answer["was"]
        )
    return text


def purged(answer: Answer) -> str:
    gone = tr("Bodies: {number} deleted") if not answer["dry_run"] else tr("Bodies: {number} to delete")
    keys = tr("Keys: {number} deleted") if not answer["dry_run"] else tr("Keys: {number} to delete")
    lines = []
    for text, name in ((gone, "bodies"), (keys, "keys")):
        line = text.format(number=grouped(answer[name]))
        if answer[f"{name}_before"] is not None:
            line += tr(", older than {at}").format(at=local_time(answer[f"{name}_before"]))
        if answer[f"{name}_kept"]:
            kept = tr("; {number} that old are kept, for they are still needed")
            line += kept.format(number=grouped(answer[f"{name}_kept"]))
        lines.append(f"{line}.")
    if answer["warning"]:
        lines.append(tr("Beware: {why}.").format(why=answer["warning"]))
    return "\n".join(lines)


def what_is_known(connection: apsw.Connection, order: str) -> str:
    """What was sent under an unresolved order, and what the broker was asked about it so far."""
    sql = (
        "SELECT o.id, o.account, o.side, o.quantity, o.filled_quantity, o.instrument, o.broker_order_id, "
        "o.client_order_id, (SELECT count(*) FROM attempts a WHERE a.order_id = o.id) AS attempts "
        "FROM orders o WHERE o.id = ?"
    )
    row = read(connection, sql, (int(order[1:]),))[0]
    parts = [row["side"], row["quantity"], row["instrument"]]
    what = " ".join(part for part in parts if part)
    text = tr("{order}: {what} in {account}, {filled} filled as far as we know.").format(
        order=order, what=what, account=row["account"], filled=row["filled_quantity"]
    )
    sent = tr("Sent once, as {id}.") if row["attempts"] == 1 else tr("Sent {number} times, as {id}.")
    text += "\n" + sent.format(number=row["attempts"], id=row["client_order_id"])
    looks = read(
        connection,
        "SELECT result, count(*) AS n FROM evidence WHERE order_id = ? GROUP BY result ORDER BY result",
        (row["id"],),
    )
    counted = ", ".join(f"{look['n']} {look['result']}" for look in looks) or tr("none yet")
    return text + "\n" + tr("Looks at the broker: {counted}.").format(counted=counted)
