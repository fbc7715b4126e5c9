"""Alpaca as a broker: one account, paper or live, over its Trading API v2.

Every order carries our client order id, and no endpoint that trades without one is ever called (HOLES H5).
Nothing is retried; what was not heard is Unknown, and what was not read has not been seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import quote, urlsplit

import structlog

from app.brokers import alpaca_wire as wire
from app.brokers.alpaca_http import AlpacaHttp, Keys, MakeKeys
from app.brokers.alpaca_read import AlpacaReader, OrdersById
from app.brokers.alpaca_symbols import is_coin, is_unmapped
from app.brokers.alpaca_wire import CODES, FACTS
from app.brokers.base import (
    Account,
    BrokerFacts,
    BrokerOrder,
    Fill,
    InstrumentRules,
    LastCheck,
    LookupFailed,
    Market,
    OrderRequest,
    Refused,
    Snapshot,
    SubmitReply,
    Unsent,
)
from app.brokers.classify import ReplyCodes
from app.brokers.rate import RateBudget
from app.clock import SECOND, Clock
from app.domain.signal import Side

log = structlog.get_logger(__name__)

LIVE_URL = "https://api.alpaca.markets"
PAPER_URL = "https://paper-api.alpaca.markets"
DATA_URL = "https://data.alpaca.markets"
PAPER_NUMBER = "PA"
"""How the numbers of Alpaca's paper accounts begin."""
RESERVE = 20
"""Requests a minute that looks leave to orders and cancels."""
RULES_AGE = 300 * SECOND
"""How long what is known of an instrument is used again."""
WHOLE = Decimal(1)
SHARE_STEP = Decimal("0.000000001")
"""Parts of a share have up to nine places (docs.alpaca.markets, fractional trading)."""
ALWAYS_OPEN = Market(is_open=True, reason="coins trade around the clock")


@dataclass(frozen=True, slots=True)
class Addresses:
    base_url: str
    data_url: str


def addresses(live: bool, base_url: str | None, data_url: str | None) -> Addresses:
    """Where an account is. `base_url` may end in /v2, as Alpaca's own pages show it."""
    base = (base_url or (LIVE_URL if live else PAPER_URL)).removesuffix("/v2")
    is_alpacas = (urlsplit(base).hostname or "").endswith(".alpaca.markets")
    return Addresses(base, data_url or (DATA_URL if is_alpacas else base))


class AlpacaBroker:
    """One account. `timeout` is what one call has, in seconds; `make_keys` is called at every connect.

    `live` is what the settings say; the account itself may only agree (HOLES H13). `facts` and `codes` can
    be others, for an exchange that works like Alpaca in all but these.
    """

    def __init__(
        self,
        at: Addresses,
        make_keys: MakeKeys,
        clock: Clock,
        *,
        live: bool,
        timeout: float = 15.0,
        facts: BrokerFacts = FACTS,
        codes: ReplyCodes = CODES,
    ) -> None:
        self._at = at
        self._make_keys = make_keys
        self._clock = clock
        self._live = live
        self._timeout = timeout
        self._facts = facts
        self._codes = codes
        self._budget = RateBudget(clock, facts.requests_per_minute or 200, RESERVE)
        self._http: AlpacaHttp | None = None
        self._seen = OrdersById()
        self._rules: dict[str, tuple[int, InstrumentRules]] = {}
        self._offset = 0

    def __repr__(self) -> str:
        return f"AlpacaBroker({self._at.base_url!r})"

    @property
    def facts(self) -> BrokerFacts:
        return self._facts

    # ---------------------------------------------------------------- the session

    async def connect(self) -> Account:
        """Reads the keys, then whose account they open. Raises LookupFailed where the settings disagree."""
        await self.close()
        keys = await _on_thread(self._make_keys)
        at = self._at
        self._http = AlpacaHttp(at.base_url, at.data_url, keys, self._clock, self._budget, self._timeout)
        self._seen, self._rules = OrdersById(), {}
        try:
            reader = self._reader()
            account = await reader.account()
            self._check_live(account.identity)
            _, self._offset = await reader.clock()
        except BaseException:
            await self.close()
            raise
        if account.blocked:
            log.warning("Alpaca takes no orders of this account", why=account.blocked)
        return account

    def _check_live(self, number: str) -> None:
        """An address proves nothing: a live account may be reached through a proxy. Raises LookupFailed."""
        is_paper = number.startswith(PAPER_NUMBER)
        if self._live and is_paper:
            raise LookupFailed(
                f"live = true, but {number} is a paper account: write live = false,"
                " or set the keys of the live account"
            )
        if not self._live and not is_paper:
            raise LookupFailed(
                f"live = false, but the number {number} is none of a paper account ({PAPER_NUMBER}...):"
                " write live = true and acknowledge the account, or set the keys of the paper account"
            )

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    # ---------------------------------------------------------------- orders

    async def submit(self, request: OrderRequest, last_check: LastCheck) -> SubmitReply:
        """Refused without a send where Alpaca would refuse it: codes NOT_TAKEN and FRACTIONAL_SHORT."""
        http = self._http
        if http is None:
            return Unsent("the session with Alpaca is not open")
        if is_unmapped(request.instrument):
            return Refused("NOT_TAKEN", f"Alpaca has no symbol for {request.instrument}")
        fault = wire.fault_of(request)
        if fault is not None:
            return Refused("NOT_TAKEN", fault)
        short = await self._fractional_short(request)
        if short is not None:
            return Refused("FRACTIONAL_SHORT", short)
        body = wire.body_of(request, self._facts.arrival_deadline_field)
        return await http.place(body, request.client_order_id, self._codes, last_check)

    async def _fractional_short(self, request: OrderRequest) -> str | None:
        """Words for a sale of a part of a share that is not held; None where nothing speaks against it."""
        is_whole = request.quantity % WHOLE == 0
        if is_whole or request.side is Side.BUY or request.reduces or is_coin(request.instrument):
            return None
        try:
            held = await self.position(request.instrument)
        except LookupFailed:
            return None  # the venue knows better, and will say so
        if held >= request.quantity:
            return None
        return f"Alpaca sells no part of a share short: {held} held, {request.quantity} to be sold"

    async def cancel(self, client_order_id: str) -> None:
        """Asks for a cancel; one that has ended or is not there stays as it is."""
        http, order = self._open(), await self.find(client_order_id)
        if order is None or order.status.is_terminal:
            return
        answer = await http.delete(f"/v2/orders/{quote(order.broker_order_id, safe='')}")
        if not answer.is_success and answer.status not in (404, 422):
            raise LookupFailed(f"cancel: HTTP {answer.status}")

    # ---------------------------------------------------------------- looks

    async def find(self, client_order_id: str) -> BrokerOrder | None:
        return await self._reader().find(client_order_id)

    async def account(self) -> Account:
        return await self._reader().account()

    async def position(self, instrument: str) -> Decimal:
        """From the list of all: a 404 on a single one can mean a coin spelt with a slash (alpaca-py 537)."""
        return (await self._reader().positions()).get(instrument, Decimal(0))

    async def quote(self, instrument: str) -> Decimal | None:
        if is_unmapped(instrument):
            return None
        return await self._reader().quote(instrument, self._offset)

    async def fills(self, client_order_id: str) -> list[Fill]:
        reader = self._reader()
        order = await reader.find(client_order_id)
        if order is None or order.filled_quantity == 0:
            return []
        return await reader.fills_of(order)

    async def snapshot(self, since: int) -> Snapshot:
        found = await self._reader().snapshot(since)
        if found.clock_offset is not None:
            self._offset = found.clock_offset
        return found

    async def market(self, instrument: str) -> Market:
        """The regular session of American shares; coins are always traded."""
        if is_coin(instrument):
            return ALWAYS_OPEN
        clock, self._offset = await self._reader().clock()
        if clock.is_open:
            return Market(is_open=True, reason="the regular session is open")
        try:
            opens = clock.opens_at
        except ValueError:
            opens = None
        when = "" if clock.next_open is None else f" until {clock.next_open}"
        return Market(is_open=False, reason=f"the American share market is closed{when}", next_open=opens)

    async def rules(self, instrument: str) -> InstrumentRules:
        """What Alpaca says of an instrument; kept for five minutes."""
        if is_unmapped(instrument):
            return _not_tradable(f"Alpaca has no symbol for {instrument}")
        known = self._rules.get(instrument)
        now = self._clock.boot()
        if known is not None and 0 <= now - known[0] < RULES_AGE:
            return known[1]
        rules = _rules_of(instrument, await self._reader().asset(instrument))
        self._rules[instrument] = (now, rules)
        return rules

    async def observe_price(self, _instrument: str, _price: Decimal) -> None:
        """Alpaca has a market of its own."""

    def on_activity(self, _wake: Callable[[], None]) -> None:
        """Nothing wakes: whoever waits looks again on a schedule."""

    def _open(self) -> AlpacaHttp:
        if self._http is None:
            raise LookupFailed("the session with Alpaca is not open")
        return self._http

    def _reader(self) -> AlpacaReader:
        return AlpacaReader(self._open(), self._clock, self._seen)


def _rules_of(instrument: str, asset: wire.Asset | None) -> InstrumentRules:
    if asset is None:
        return _not_tradable(f"Alpaca does not know {instrument}")
    name = wire.spelled(asset.symbol, asset.asset_class)
    if name != instrument:
        return _not_tradable(f"Alpaca calls {instrument} {name}")
    if asset.asset_class not in ("us_equity", "crypto"):
        return _not_tradable(f"{instrument} is {asset.asset_class or 'of no known class'} at Alpaca")
    if not asset.tradable or asset.status != "active":
        return _not_tradable(f"{instrument} is not traded at Alpaca now ({asset.status})")
    if asset.asset_class == "crypto":
        step = asset.min_trade_increment or SHARE_STEP
        return InstrumentRules(
            step=step, minimum=asset.min_order_size or step, is_tradable=True, is_shortable=False
        )
    step = SHARE_STEP if asset.fractionable else WHOLE
    return InstrumentRules(
        step=step, minimum=step, is_tradable=True, is_shortable=asset.shortable and asset.easy_to_borrow
    )


def _not_tradable(reason: str) -> InstrumentRules:
    return InstrumentRules(step=WHOLE, minimum=WHOLE, is_tradable=False, is_shortable=False, reason=reason)


async def _on_thread(work: MakeKeys) -> Keys:
    """Keys are read from disk or from the system's keyring, which may take its time."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="alpaca-keys")
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, work)
    finally:
        thread.shutdown(wait=False)
