"""The words of an alert (CONTRACT 3, HOLES H9), as tables that `alert.py` walks.

Every field name is in one of four places: used, harmless, changing what is asked for (honoured or refused),
or in none. Adding a name is adding a word to a table. Nothing here reads a payload.
"""

from __future__ import annotations

import re
from functools import lru_cache

from app.domain.signal import Action, Direction, OrderType, TimeInForce

_IGNORED_IN_NAMES = re.compile(r"[_\-\s.]")


@lru_cache(maxsize=1024)  # every alert of a strategy has the same names
def fold(name: str) -> str:
    """Names are compared without case, `_`, `-`, `.` and spaces: `limitPrice` is `limit_price`."""
    return _IGNORED_IN_NAMES.sub("", name.lower())


def _folded(names: str) -> frozenset[str]:
    return frozenset(fold(name) for name in names.split())


# ------------------------------------------------------------------------------------------------- used

USED: dict[str, str] = {
    "strategy": "strategy strategy_name",
    "symbol": "symbol ticker instrument tv_instrument",
    "exchange": "exchange tv_exchange",
    "interval": "interval timeframe",
    "bar_time": "bar_time time",
    "fired_at": "fired_at fired_at_ms timenow timestamp",
    "action": "action side order_action",
    "quantity": "quantity qty contracts order_contracts",
    "type": "type order_type",
    "limit_price": "limit_price",
    "stop_price": "stop_price",
    "price": "price order_price close",
    "tif": "tif time_in_force",
    "order_id": "order_id",
    "market_position": "market_position",
    "market_position_size": "market_position_size",
    "prev_market_position": "prev_market_position",
    "prev_market_position_size": "prev_market_position_size",
    "position_size": "position_size",
    "sentiment": "sentiment",
    "take_profit": "take_profit",
    "stop_loss": "stop_loss",
    "secret": "secret passphrase",
    "comment": "comment order_comment",
    "key": "key idempotency_key",
    "id": "id",
    "trace_id": "trace_id",
    "alert_id": "alert_id",
    "reduce_only": "reduce_only close_position",
    "paper_only": "test is_test paper paper_only paper_trade paper_trading dry_run sandbox demo simulated",
}
"""Field -> its names; where they may differ the first counts. `position_size`: TradingView's signed size."""

NAMES: dict[str, str] = {fold(name): field for field, names in USED.items() for name in names.split()}
"""Folded name -> field."""

RANK: dict[str, int] = {fold(name): i for names in USED.values() for i, name in enumerate(names.split())}
"""Folded name -> its place among the names of its field."""

NOT_IN_STRATEGY = frozenset({"key", "id", "trace_id", "alert_id"})
"""Fields that a nested `strategy` object cannot give: there they describe the strategy, not this signal."""

ENTERS_THE_ORDER = frozenset(
    """
    strategy symbol exchange action quantity type limit_price stop_price tif market_position
    market_position_size prev_market_position prev_market_position_size position_size sentiment
    take_profit stop_loss key id trace_id
    """.split()  # noqa: SIM905 a table of words
)
"""Two names of one of these that disagree are refused; of any other field the first in USED counts (H44)."""

ACTIONS: dict[str, Action] = {
    "buy": Action.BUY,
    "long": Action.BUY,
    "sell": Action.SELL,
    "short": Action.SELL,
    "exit": Action.EXIT,
    "close": Action.EXIT,
    "flat": Action.EXIT,
    "flatten": Action.EXIT,
    "reverse": Action.REVERSE,
    "cancel": Action.CANCEL,
}
DIRECTIONS: dict[str, Direction] = {word.value: word for word in Direction}
ORDER_TYPES: dict[str, OrderType] = {fold(word.value): word for word in OrderType}
TIMES_IN_FORCE: dict[str, TimeInForce] = {word.value: word for word in TimeInForce}

FALSE_WORDS = frozenset({"", "false", "no", "off", "0", "none", "null"})
TRUE_WORDS = frozenset({"true", "yes", "on", "1"})
FLAG_WORDS = (FALSE_WORDS | TRUE_WORDS) - {"", "0", "1"}
"""Folded words that can be nothing but a flag."""
CLOSE = "close"
"""A bar's close, or with a flag under it what `close_position` says."""

# --------------------------------------------------------------------------------------------- harmless

HARMLESS = _folded(
    # the bar and the instrument, as TradingView's placeholders name them
    """
    bar open high low volume hl2 hlc3 ohlc4 plot plots bid ask mid last last_price mark_price index_price
    signal_price bar_index time_close bar_close_time ticker_id basecurrency mintick point_value sector
    industry country
    """
    # texts for people
    """
    name title label message text note notes description desc reason alert alert_name alert_message
    order_alert_message tag tags indicator study script chart chart_url url link image screenshot author
    source sender origin provider user username email version v schema format content
    """
    # bags for whatever the sender likes to keep
    "extras extra meta metadata custom info debug context indicators "
    # what a strategy says about its past
    """
    net_profit open_profit gross_profit gross_loss win_rate open_trades closed_trades position_avg_price
    max_drawdown profit_factor
    """
)
"""Kept in the stored body, ignored. So is a name that is_credential knows, its value blanked."""

HARMLESS_PATTERN = re.compile(r"plot\d{1,2}|syminfo.*")
"""`plot_0` to `plot_19`, `syminfo.currency` and its like."""

HARMLESS_IN_STRATEGY = _folded("id key trace_id alert_id")

# --------------------------------------------------------------------- changing what is asked for (H9)

UNSUPPORTED: dict[str, str] = {
    "send the size in units as quantity, and set sizing on the account for cash, percent or risk": """
        quantity_type qty_type quantity_kind quantity_unit size_type sizing sizing_type amount_type
        volume_type currency_type risk_type unit amount size order_size trade_size units lots lot lot_size
        notional cash dollars dollar_amount usd usd_amount usdt_amount quote_order_qty quote_quantity
        quote_qty quote_amount
        percent percentage pct qty_percent qty_pct quantity_percent percent_of_equity
        percent_of_position equity_percent position_percent balance_percent risk risk_percent risk_pct
        risk_amount risk_dollars risk_dollar_amount vol_lots vol_dollar vol_pct vol_pct_bal_lots
        vol_pct_bal_loss vol_pct_margin investment capital multiplier contract_multiplier factor scale
        contract_size
        """,
    "remove it or put it under extras; a quantity is in units of the instrument, never in a currency": """
        currency quote_currency
        """,
    "remove it; leverage, margin and position mode are set at the broker": """
        leverage lever margin margin_mode margin_type isolated position_side position_mode hedge hedge_mode
        """,
    "remove it; a trailing or moving stop is not placed": """
        trailing trailing_stop trailing_stop_loss trailing_percent trailing_distance trailing_amount trail
        trail_price trail_percent trail_amount trail_offset trail_points trail_trig trail_dist trail_step
        callback_rate activation_price activate_price break_even be_trigger be_offset break_even_trigger
        break_even_offset atr_timeframe atr_period atr_multiplier atr_shift atr_trigger atr_trail new_sltp
        new_sltp_long new_sltp_short
        """,
    "use take_profit and stop_loss (where the account places brackets), limit_price or stop_price": """
        tp tp1 tp2 tp3 tp4 tp5 sl sl1 sl2 sl3 stop limit target targets target1 target2 target3 target_price
        target_type profit_target take_profit_1 take_profit_2 take_profit_3 take_profit_price
        take_profit_percent take_profit_pct stop_loss_price stop_loss_percent stop_loss_pct tp_pct tp_pips
        tp_price tp_percent sl_pct sl_pips sl_price sl_percent atm atm_strategy atm_targets atm_stops atm_qtys
        oco oco_id bracket brackets order_class entry entry_price trigger_price trigger_type working_type
        price_type price_offset limit_offset slippage max_slippage slippage_tolerance
        """,
    "remove it; age limits are the source's max_age and max_exit_age, and an order is sent at once": """
        expires_at expire_at expires expiry expire_time expiry_time expiration good_until good_till_date gtd
        gtd_time valid_until max_lag max_age delay delay_seconds delay_ms cancel_after timeout order_timeout
        limit_timeout ttl schedule_at execute_at window trading_window trade_window bypass_trade_windows
        bypass_windows extended_hours outside_rth after_hours pre_market
        """,
    "remove it and send an alert of its own with action buy, sell, exit, reverse or cancel": """
        cancel cancel_all cancel_orders cancel_open_orders cancel_pending cancel_first cancel_long
        cancel_short flatten flatten_first close_first close_all close_opposite close_long close_short
        reverse reverse_order_close exit exit_all is_buy is_sell direction command message_type kill_switch
        halt pause ea_on ea_off
        """,
    "remove it; conditions on the position are market_position, sentiment and the account's limits": """
        require_market_position max_positions max_position pyramiding pyramid out_of_sync strict_sync
        sync_strategy only_if condition conditions rate_limit spread max_spread acc_filter account_filter
        min_profit
        """,
    "remove it; this kind of order is not placed": """
        post_only maker_only hidden iceberg display_qty display_quantity all_or_none aon option_type option
        strike strike_price strike_count strikes_away intrinsic_value expiration_date right sec_type
        asset_class asset_type market_type instrument_type product_type contract_type
        """,
    "remove it; the source's settings decide which account it reaches": """
        account accounts account_id account_name account_number sub_account portfolio broker brokers
        subscription subscriptions bot_id bot_uuid destination route router
        """,
    "send one flat order with Onefill's names; another product's format is set on the source": """
        order orders legs position strategy_info
        """,
}
"""Remedy -> names that change what is asked for and that this version does not honour.

Gathered from TradersPost (quantityType, trailAmount, cancelAfter, optionType, ...), 3Commas (max_lag,
strategy_info, currency_type, bot_uuid, ...), PineConnector (risk, sl_pips, betrigger, ...), CrossTrade
(flatten_first, require_market_position, out_of_sync, ...) and the order forms of common exchanges.
"""

MEANING_CHANGING: dict[str, str] = {
    fold(name): remedy for remedy, names in UNSUPPORTED.items() for name in names.split()
}
"""Folded name -> remedy."""

POSITION_SIZE_REMEDY = "send market_position and market_position_size, or quantity if it is the order's size"
BRACKET_REMEDY = (
    "remove it, or use an account that can place brackets; an entry is never sent without its stop"
)

_NEUTRAL: tuple[tuple[str, str], ...] = (
    (
        """
        quantity_type qty_type quantity_kind quantity_unit size_type sizing_type amount_type volume_type
        currency_type unit
        """,
        "fixed fixed_quantity quantity qty units unit shares share contracts contract base",
    ),
    ("leverage lever multiplier contract_multiplier factor scale", "1 1x"),
    ("position_side position_mode", "both one_way net"),
    ("sec_type asset_class asset_type market_type instrument_type", "stock stocks equity us_equity spot"),
    ("command", "place"),
    ("order_class", "simple"),
)
NEUTRAL: dict[str, frozenset[str]] = {
    name: _folded(words) for names, words in _NEUTRAL for name in _folded(names)
}
"""Folded name -> folded words that change nothing there, besides false, null, nothing and zero."""

# ------------------------------------------------------------------------------------------ credentials

_SECRET_PART = re.compile("secret|passphrase|password|passwd|passcode|token|apikey|privatekey|credential")
_SECRET_NAMES = _folded(
    """
    pass pwd pw auth authorization authentication bearer pin otp hmac signature access_key auth_key
    signing_key encryption_key license_key licence_key webhook_key hook_key master_key client_key
    consumer_key app_key user_key account_key key_id license licence license_id licence_id
    webhook_url hook_url webhook cookie session_id
    """
)


def is_secret_name(name: str) -> bool:
    """Is a value under this name a credential, to be blanked in whatever is kept?

    `key` and `idempotency_key` are not: they are the signal's identity.
    """
    bare = _bare(name)
    return bare in _SECRET_NAMES or _SECRET_PART.search(bare) is not None


def is_credential(name: str) -> bool:
    """Is it a secret and nothing else? `token_amount` is blanked as well, but may be a size (HOLES H9)."""
    return is_secret_name(name) and _AMOUNT_IN_NAME.search(_bare(name)) is None


_NOT_BARE = re.compile(r"[^0-9a-z]+")


def _bare(name: str) -> str:
    return _NOT_BARE.sub("", name.lower())


_AMOUNT_IN_NAME = re.compile(
    r"tokens(?:$|to|per|in|out)|tokensize|tokenvalue|tokenprice|tokensymbol|tokenaddress|tokenpair"
    r"|qty|quantity|amount|notional|percent|pct|units|lots"
    r"|(?:num|number|base|quote)(?:of)?token|token(?:num|number|count)$"
)
"""`tokens` and what else makes a token something that is bought and sold."""
