"""The drills of `onefill drill`: the worst minutes of this field, one after the other.

Each is a row of the table at the end. What must come out is said in each, and the judge looks at all of them.
"""

from __future__ import annotations

import asyncio
import random

from app.drill.book import Book
from app.drill.faults import Fault, Hold, Reply, Taken
from app.drill.house import NUMBER
from app.drill.story import Drill, Story


async def placed(d: Drill) -> None:
    d.did("A buy of 10 AAPL arrives and is placed.")
    await d.house.start()
    await d.buy()
    (order,) = await d.ended()
    await d.filled(order)
    await d.posts(1)


async def ten_at_once(d: Drill) -> None:
    d.did("The same alert arrives ten times at the same moment.")
    await d.house.start()
    body = d.alert(quantity=10, price=100)
    await asyncio.gather(*(d.post(body, ("accepted", "duplicate")) for _ in range(10)))
    orders = await d.ended()
    d.expect(len(orders) == 1, f"ten deliveries are one order, not {len(orders)}")
    await d.posts(1)


async def response_lost(d: Drill) -> None:
    d.did(
        "The exchange takes the order and fills it; then the connection is reset before its answer arrives."
    )
    d.did("The sender repeats the alert while nobody knows.")
    await d.house.start()
    d.fault(Reply.RESET)
    body = d.alert(quantity=10, price=100)
    await d.post(body)
    await d.post(body, ("duplicate",))
    (order,) = await d.ended()
    await d.filled(order)
    await d.posts(1)


async def request_lost(d: Drill) -> None:
    d.did(
        "The connection is reset before the exchange has seen the order. Nobody can know that from outside."
    )
    await d.house.start()
    d.fault(Reply.RESET, Taken.NEVER)
    await d.buy()
    (order,) = await d.ended()
    d.expect(
        order["reason"] == "CONFIRMED_ABSENT", "it is called absent after complete looks, and not sent again"
    )
    await d.posts(1)


async def gateway_504(d: Drill) -> None:
    d.did("The exchange takes the order; its gateway answers 504 with a page.")
    await d.house.start()
    d.fault(Reply.STATUS, status=504)
    await d.buy()
    (order,) = await d.ended()
    await d.filled(order)
    await d.posts(1)


async def half_an_answer(d: Drill) -> None:
    d.did("The exchange takes the order; its answer breaks off in the middle.")
    await d.house.start()
    d.fault(Reply.TRUNCATED)
    await d.buy()
    (order,) = await d.ended()
    await d.filled(order)
    await d.posts(1)


async def page_with_200(d: Drill) -> None:
    d.did("A proxy answers 200 with a web page, and the order never got further.")
    await d.house.start()
    d.fault(Reply.HTML, Taken.NEVER)
    await d.buy()
    (order,) = await d.ended()
    d.expect(order["state"] == "NOT_PLACED", "a page is not taken for success, and is looked into")
    await d.posts(1)


async def shown_late(d: Drill) -> None:
    d.did("The answer is lost, and for 4 seconds the exchange says of its own order that there is none.")
    await d.house.start()
    d.lags(4)
    d.fault(Reply.RESET)
    await d.buy()
    (order,) = await d.ended()
    await d.filled(order)
    await d.posts(1)


async def lookups_down(d: Drill) -> None:
    d.did("The answer is lost, and the next looks at the exchange fail with 500.")
    await d.house.start()
    d.fault(Reply.RESET)
    d.fault(Reply.STATUS, Taken.NEVER, at="find", status=500, times=4)
    await d.buy()
    (order,) = await d.ended()
    await d.filled(order)
    await d.posts(1)


async def killed_before_send(d: Drill) -> None:
    d.did("The program is killed (as by kill -9) after it wrote down that it sends, before a byte left.")
    await d.house.start("before_broker")
    body = d.alert(quantity=10, price=100)
    await d.house.post(body)
    await d.house.killed()
    d.did("It is started again, and the sender repeats the alert.")
    await d.house.start()
    await d.post(body, ("duplicate",))
    (order,) = await d.ended()
    d.expect(
        order["reason"] == "CONFIRMED_ABSENT", "it is shown as not placed, and nothing is sent by itself"
    )
    await d.posts(0)


async def killed_after_send(d: Drill) -> None:
    d.did(
        "The program is killed after the exchange has filled the order, before the answer was written down."
    )
    await d.house.start("after_broker")
    body = d.alert(quantity=10, price=100)
    await d.house.post(body)
    await d.house.killed()
    d.did("It is started again, and the sender repeats the alert.")
    await d.house.start()
    await d.post(body, ("duplicate",))
    (order,) = await d.ended()
    await d.filled(order)
    await d.posts(1)


async def exit_in_doubt(d: Drill) -> None:
    d.did("The answer to a buy is lost and the order is shown nowhere for 2 seconds. The exit comes at once.")
    await d.house.start()
    d.lags(2)
    d.fault(Reply.RESET)
    await d.buy()
    await d.state(1, "AMBIGUOUS")
    await d.post(d.alert("exit"))
    d.did("The exit waits for the buy, and closes what turns out to be there.")
    entry, *exits = await d.ended(2)
    await d.filled(entry)
    d.expect(bool(exits) and exits[-1]["state"] == "DONE", "the exit is done")
    d.expect(await d.position() == 0, f"the position at the exchange is 0, not {await d.position()}")


async def partly_filled_exit(d: Drill) -> None:
    d.did("A buy of 10 at a limit has filled 3 when the exit comes; the other 7 fill during the cancel.")
    await d.house.start()
    d.exchange.rules.filling = "by_hand"
    await d.buy(type="limit", limit_price=100)
    row = await d.state(1, "WORKING")
    await d.make(Book.fill, row["client_order_id"], "3")
    cancel = Hold()
    d.exchange.plan.add(Fault("cancel", taken=Taken.LATE, hold=cancel))
    await d.post(d.alert("exit"))
    async with asyncio.timeout(20):
        await cancel.arrived.wait()
    await d.make(Book.fill, row["client_order_id"], "7")
    d.exchange.rules.filling = "in_reply"
    cancel.release()
    await d.ended(2)
    d.expect(await d.position() == 0, f"the position at the exchange is 0, not {await d.position()}")


async def throttled(d: Drill) -> None:
    d.did("The exchange answers 429 and asks to be left alone for 2 seconds.")
    await d.house.start()
    d.fault(Reply.STATUS, Taken.NEVER, status=429, message="too many requests.", retry_after="2")
    await d.buy()
    (order,) = await d.ended()
    await d.filled(order)
    await d.posts(2)
    d.did("A 429 says itself that nothing was done: only then is an order sent a second time.")


async def venue_down(d: Drill) -> None:
    d.did(
        "The exchange is down when the program starts. An alert comes, waits, and grows older than 3 seconds."
    )
    await d.exchange.stop()
    await d.house.start()
    await d.buy()
    (order,) = await d.ended()
    d.did("The exchange comes back: what is stale is not fired.")
    await d.exchange.start()
    d.expect(order["state"] == "DENIED", f"the order is refused as stale, not {order['state']}")
    await d.buy(1)
    orders = await d.house.until(
        lambda rows: len(rows) == 2 and rows[1]["state"] in ("DONE", "DENIED"),
        "SELECT * FROM v_orders ORDER BY number",
        "the next order to end",
    )
    if (
        orders[1]["state"] == "DENIED"
    ):  # it came before the account was ready again, and has grown old as well
        await d.buy(1)
        orders = await d.ended(3)
    await d.filled(orders[-1], 1)
    await d.posts(1)


async def by_hand(d: Drill) -> None:
    d.did("Somebody trades by hand in the same account: holds 100 AAPL and has a resting order.")
    order = {"symbol": "AAPL", "side": "buy", "qty": "100", "type": "market", "time_in_force": "day"}
    await d.make(Book.by_hand, NUMBER, order)
    await d.make(Book.by_hand, NUMBER, {**order, "qty": "5", "type": "limit", "limit_price": "50"})
    await d.house.start()
    await d.buy()
    await d.ended()
    await d.post(d.alert("buy", quantity=1, price=100))
    await d.ended(2)
    hand = await d.exchange.rows("SELECT status FROM orders WHERE origin = 'hand' ORDER BY seq")
    d.expect([row["status"] for row in hand] == ["filled", "new"], "the hand's orders are as they were")
    d.expect(await d.position() == 111, f"the position is 100 + 10 + 1, not {await d.position()}")


async def storm(d: Drill) -> None:
    d.did("Ten alerts, each delivered three times, while answers are lost and gateways and looks fail,")
    d.did("and the program is killed in between.")
    chance = random.Random(7)  # noqa: S311
    symbols = ("AAPL", "MSFT", "NVDA", "TSLA", "AMZN")
    for symbol in symbols[1:]:
        await d.make(Book.add_asset, symbol, "100")
    await d.house.start()
    for _ in range(5):
        taken = chance.choice([Taken.BEFORE_REPLY, Taken.NEVER])
        reply = chance.choice([Reply.RESET, Reply.TRUNCATED, Reply.HTML, Reply.STATUS])
        d.fault(reply, taken, status=502, skip=chance.randrange(3))
    d.fault(Reply.STATUS, Taken.NEVER, at="find", status=500, times=3, skip=3)
    bodies = [d.alert(quantity=1, price=100, symbol=symbols[number % 5]) for number in range(10)]
    for number, body in enumerate(bodies):
        await asyncio.gather(*(d.house.post(body) for _ in range(2)))
        if number == 6:
            await d.house.kill()
            await d.house.start()
        await d.post(body, ("duplicate", "accepted"))
    # The venue allows 200 requests a minute: with so much in doubt at once, looks wait their turn.
    orders = await d.ended(10, patience=100)
    d.expect(len(orders) == 10, f"thirty deliveries are 10 orders, not {len(orders)}")


STORIES: tuple[Story, ...] = (
    Story("placed", "One alert, one order", placed),
    Story("ten-at-once", "Ten copies of one alert at the same moment", ten_at_once),
    Story("response-lost", "The answer is lost after the fill", response_lost),
    Story("request-lost", "The order never arrives", request_lost),
    Story("gateway-504", "A gateway's error after the order was taken", gateway_504),
    Story("half-an-answer", "An answer that breaks off", half_an_answer, told_first=False),
    Story("page-with-200", "A page with status 200 instead of an answer", page_with_200, told_first=False),
    Story("shown-late", "The exchange does not know its own order for a while", shown_late),
    Story("lookups-down", "Nobody can be asked", lookups_down),
    Story("killed-before-send", "Killed right before the first byte", killed_before_send),
    Story("killed-after-send", "Killed right after the fill", killed_after_send),
    Story("exit-in-doubt", "The exit comes while the entry is in doubt", exit_in_doubt),
    Story("partly-filled-exit", "The exit comes while the entry fills", partly_filled_exit),
    Story("throttled", "Too many requests", throttled),
    Story(
        "venue-down", "The exchange is down at the start", venue_down, max_order_age="3s", told_first=False
    ),
    Story("by-hand", "A person trades beside it", by_hand, told_first=False),
    Story("storm", "Everything at once, and a kill", storm, told_first=False),
)
