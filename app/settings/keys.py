"""The table of all settings: key, how it is read, default, and why the default is what it is.

Data that the rest walks: reading, defaults, "did you mean" and the file of a first start come from here.
Adding a setting is adding a row here and a field in `model.py`; a test holds the two together.
"""

from __future__ import annotations

from app.clock import SECOND
from app.settings import faults, model, words
from app.settings.notices import NOTICES, SYSTEM
from app.settings.table import Key, Table
from app.settings.tunnel import TUNNEL
from app.settings.updates import UPDATES

_COUNT = words.whole(0, 1_000_000)
_LONGEST_BAR = 32 * 24 * 3_600 * SECOND
"""A month and a day: what a signal may state as its time when it comes in."""


LISTENER = Table(
    "listener",
    model.Listener,
    array=False,
    why="The door: where alerts arrive.",
    keys=(
        Key(
            "host",
            words.loopback,
            "127.0.0.1",
            "This machine only. The hook is reached from outside by a tunnel, which brings the encryption.",
        ),
        Key("port", words.whole(0, 65_535), 8787, "0 takes any free port. Addresses: `onefill url`."),
    ),
)

SOURCES = Table(
    "sources",
    model.Source,
    array=True,
    why="Who sends alerts. One block a sender. Their tokens are kept elsewhere: `onefill url`.",
    keys=(
        Key("name", words.name, "tradingview", "A part of the hook's address: a-z, 0-9, _ and -."),
        Key(
            "id",
            words.identity,
            "",
            "Made by Onefill. What was claimed stays claimed under this id: never change or copy it.",
        ),
        Key(
            "auth",
            words.choice("path", "body"),
            "path",
            '"path": the token is in the address, so it is in no alert text and no log of alerts. "body": a '
            "secret in the alert's text, for senders whose address cannot hold a token.",
        ),
        Key("format", words.choice(*model.FORMATS), "auto", "How the alert's text is read."),
        Key(
            "accounts",
            words.names,
            ["paper"],
            "Where its alerts are traded: all paper or all live, so that no test reaches money.",
        ),
        Key(
            "max_age",
            words.duration(),
            "90s",
            "An older entry is refused: senders repeat within a minute, later the market has moved on.",
        ),
        Key(
            "max_exit_age",
            words.duration(),
            "15m",
            "The same for exits. Longer: a late exit costs less than a position that nobody closes.",
        ),
        Key(
            "without_time",
            words.choice("window", "refuse"),
            "window",
            "An alert with neither key nor bar time cannot be told from its repeat. "
            '"window": equal ones within 45 s are one. "refuse": none gets in. A source that reaches a '
            "live account has to say which.",
            written=False,
        ),
        Key(
            "body_key",
            words.choice("identity", "label"),
            "identity",
            "What a key in the alert's text is: the identity of one signal, or the label of an order "
            "that comes again.",
        ),
        Key(
            "on_conflict",
            words.choice("refuse", "admit_exits"),
            "refuse",
            "A known key with another order waits for a person. With admit_exits, exits get in, each once.",
        ),
        Key(
            "duplicate_status",
            words.choice(200, 409),
            200,
            "The answer to a repeat, 200 or 409. 200: a sender that sees an error sends again.",
        ),
        Key("rate", words.rate, "0", "The most entries a minute; 0 is no limit of its own."),
    ),
)

ACCOUNTS = Table(
    "accounts",
    model.Account,
    array=True,
    why="Where orders go. One block an account.",
    keys=(
        Key("name", words.name, "paper", "What sources and commands call it."),
        Key(
            "broker",
            words.text,
            "paper",
            f"In this version: {', '.join(model.BROKERS)}. Paper is an exchange of our own, without money.",
        ),
        Key("cash", words.amount, "100000", "Paper only: what the account starts with."),
        Key("live", words.flag, False, "Whether this is money. The broker's own answer has to agree."),
        Key(
            "base_url",
            words.url,
            None,
            "Another address of the broker: a sandbox, a proxy. Unless it is known as a sandbox or is on "
            "this machine, it counts as live.",
            example="https://sandbox.example",
        ),
        Key(
            "data_url",
            words.url,
            None,
            "The same for market data; by default base_url where that is set.",
            example="https://data.sandbox.example",
        ),
        Key(
            "allow_short",
            words.flag,
            False,
            "Whether a sell may open a short. The loss of a short has no bound: ask for it by name.",
        ),
        Key(
            "sizing",
            words.sizing,
            "signal",
            "The size of an entry: the signal's quantity, or "
            '"quantity:10", "cash:1000", "equity:5%". Exits are sized by what is held.',
        ),
        Key(
            "brackets",
            words.choice("refuse", "place"),
            "refuse",
            "Alerts with take profit or stop loss. Refused: an entry without its stop is another order.",
        ),
        Key(
            "symbols",
            words.symbols,
            "all",
            'What may be traded: "all", or a list as ["AAPL", "MSFT"]; an empty list is nothing. '
            "A live account has to say it.",
            written=False,
        ),
        Key(
            "capital", words.amount, "0", "What the position ceiling is a part of; 0 is the broker's equity."
        ),
        Key(
            "gate",
            words.choice("hold", "hold_account"),
            "hold",
            "While the fate of an order is unknown: no entries on that instrument (hold), or on the account.",
        ),
        Key(
            "when_closed",
            words.choice("deny", "queue"),
            "deny",
            'Entries outside the session. "queue": the broker keeps them and fills them at the next open.',
        ),
        Key(
            "fills",
            words.choice("async", "instant", "partial"),
            "async",
            "Paper only: async, instant or partial. A real broker answers first and fills later.",
        ),
        Key(
            "faults",
            faults.faults,
            [],
            f"Paper only: what goes wrong with the next orders, in order: {', '.join(faults.FAULTS)}.",
            example='["reply_lost_after", "lookups_fail:3"]',
        ),
    ),
)

RISK = Table(
    "risk",
    model.Risk,
    array=False,
    why="Limits. They stop entries; an order that only makes a position smaller is stopped by none of them. "
    "No alert can name or change one.",
    keys=(
        Key(
            "position_divisor",
            words.whole(1, 1_000_000),
            20,
            "No position is worth more than the capital divided by this. 20: one position is 5 %.",
        ),
        Key(
            "max_order_notional",
            words.amount,
            "0",
            "The most that one order may be worth; 0 is the position ceiling.",
        ),
        Key("max_orders_per_minute", _COUNT, 30, "Stops a sender gone wild; 0 is no limit."),
        Key("max_orders_per_day", _COUNT, 0, "0 is no limit: how many are right, only the strategy knows."),
        Key("max_open_positions", _COUNT, 0, "0 is no limit: the position ceiling holds for each."),
        Key(
            "max_daily_loss",
            words.amount,
            "0",
            "After this loss since the day began no more entries; 0 is no limit: set what you can bear.",
        ),
        Key("day_zone", words.zone, "America/New_York", "Whose midnight begins the day: the exchange's."),
        Key(
            "price_collar",
            words.fraction,
            "2%",
            "How far the alert's price may be from the broker's. A wrong symbol or decimal point stops here. "
            "A paper account is priced by the alert itself: there it stops nothing.",
        ),
        Key("cooldown", words.duration(0), "0s", "The least time between two entries on one symbol."),
    ),
)

EXECUTION = Table(
    "execution",
    model.Execution,
    array=False,
    why="How orders are sent.",
    keys=(
        Key(
            "request_timeout",
            words.duration(),
            "15s",
            "How long a broker may take to answer. After it the order's fate is unknown and is looked up.",
        ),
        Key(
            "max_order_age",
            words.duration(),
            "60s",
            "From the first receipt to the send: an entry that waited longer is not what was meant.",
        ),
        Key("stop_grace", words.duration(0), "5s", "How long a stop waits for answers of brokers."),
    ),
)

RECONCILIATION = Table(
    "reconciliation",
    model.Reconciliation,
    array=False,
    why="How often the broker is asked what is true, and when 'not found' is proof.",
    keys=(
        Key("interval", words.duration(), "60s", "How often orders and fills are compared."),
        Key("positions_interval", words.duration(), "300s", "How often positions are compared."),
        Key(
            "absent_confirmations",
            words.whole(1, 100),
            3,
            "So many complete looks must miss an order before it counts as absent: brokers show orders late.",
        ),
        Key(
            "absent_min_age",
            words.duration(SECOND),
            "300s",
            "How old the send must be at the last of them. On paper one complete look is proof.",
        ),
        Key(
            "arrival_bound",
            words.duration(SECOND),
            "120s",
            "How late a request may still arrive at a broker whose orders carry no expiry time.",
        ),
        Key("resolve_deadline", words.duration(SECOND), "900s", "After this a person decides."),
        Key("ghost_watch", words.duration(), "24h", "How long an absent order is still looked for."),
        Key(
            "drift_tolerance",
            words.drift_tolerance,
            "1 step",
            "How far broker and book may differ without an alarm, in quantity steps.",
        ),
    ),
)

RETENTION = Table(
    "retention",
    model.Retention,
    array=False,
    why="How long what is kept.",
    keys=(
        Key(
            "bodies", words.duration_or_forever(), "90d", "The texts of alerts: a quarter can be looked into."
        ),
        Key(
            "keys",
            words.duration_or_forever(least=_LONGEST_BAR),
            "forever",
            "A forgotten key could be used again, and keeping one costs about 84 bytes. At least 32d: signals"
            " as old as a forgotten key are refused, and one on a monthly bar states the bar's beginning.",
        ),
        Key("backups", words.whole(1, 1000), 7, "One a day; so many are kept."),
    ),
)

TABLES = (
    LISTENER,
    TUNNEL,
    SOURCES,
    ACCOUNTS,
    RISK,
    EXECUTION,
    RECONCILIATION,
    RETENTION,
    UPDATES,
    NOTICES,
    SYSTEM,
)

SECRET_WORDS = ("token", "secret", "password", "passphrase", "api_key", "apikey", "key_id")
"""Parts of the names of what people put here although secrets have their own place."""
