"""What the settings are when nothing, or everything, is said; and how each kind of value is read."""

import tomllib
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from app.clock import SECOND
from app.settings import (
    TEST_SOURCE,
    Account,
    CashSizing,
    DriftTolerance,
    EquitySizing,
    QuantitySizing,
    Settings,
    SignalSizing,
    default_text,
    load_or_create,
    parse_duration,
    read_settings,
)
from app.settings.keys import TABLES

# CONTRACT 4, word for word.
CONTRACT = """
[listener]
host = "127.0.0.1"
port = 8787

[[sources]]
name = "tradingview"
id = "..."                   # the namespace of its keys: made and written back on first sight; the ledger remembers name and id, fills in a missing one by name, and stops the start on a changed or doubled one
auth = "path"                # or "body"
format = "auto"
accounts = ["paper"]         # all paper or all live
max_age = "90s"
max_exit_age = "15m"
without_time = "window"      # or "refuse"
body_key = "identity"        # or "label"
on_conflict = "refuse"       # or "admit_exits" (also for key_reused; the admitted key holds intent and bar time or 10-minute epoch, H16)
duplicate_status = 200       # or 409
rate = "0"                   # entries a minute; 0 = no own limit

[[accounts]]
name = "paper"
broker = "paper"             # paper, alpaca, ...
cash = "100000"              # paper only
live = false
# base_url = "..."           # a sandbox, a proxy, a test server; data_url likewise (market data), by default base_url where that is set
allow_short = false
sizing = "signal"            # or "quantity:10", "cash:1000", "equity:5%"
brackets = "refuse"          # until the account can place them
symbols = "all"              # a list; a live account must say it, "all" included
capital = "0"                # 0 = the broker's equity
gate = "hold"                # unresolved order on an instrument: hold entries there; "hold_account"
when_closed = "deny"         # entries outside the session; or "queue" (the broker keeps them)
fills = "async"              # paper only: async, instant, partial
faults = []                  # paper only: see `onefill drill`

[risk]
position_divisor = 20        # no position above capital / 20
max_order_notional = "0"     # 0 = the position ceiling
max_orders_per_minute = 30
max_orders_per_day = 0
max_open_positions = 0
max_daily_loss = "0"
day_zone = "America/New_York"
price_collar = "2%"
cooldown = "0s"

[execution]
request_timeout = "15s"
max_order_age = "60s"        # entries: from the first receipt to the send
stop_grace = "5s"

[reconciliation]
interval = "60s"
positions_interval = "300s"
absent_confirmations = 3
absent_min_age = "300s"      # tests may use seconds; on paper one complete look is proof
arrival_bound = "120s"       # where the broker has no expiry field
resolve_deadline = "900s"
ghost_watch = "24h"
drift_tolerance = "1 step"

[retention]
bodies = "90d"
keys = "forever"
backups = 7
"""  # noqa: E501

# The contract is silent here.
UPDATES = """
[updates]
check = false
"""
NOTICES = """
[[notices]]
name = "desktop"
to = "desktop"
kinds = ["critical", "needs_you", "drift", "account", "unwell", "stopping"]
quiet = ""

[system]
close = "tray"
keep_awake = false
"""
TUNNEL = """
[tunnel]
kind = "none"
protocol = "auto"
"""

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def test_each_default_is_the_contracts() -> None:
    said = tomllib.loads(CONTRACT + TUNNEL + UPDATES + NOTICES)
    for table in TABLES:
        block = said[table.name][0] if table.array else said[table.name]
        defaults = {key.name: key.default for key in table.keys if key.default is not None}
        defaults = {name: "..." if name == "id" else default for name, default in defaults.items()}
        assert defaults == block, table.name


def test_nothing_said_is_the_contracts_block() -> None:
    assert read_settings("") == read_settings(CONTRACT)


def test_the_typed_values_of_the_defaults() -> None:
    settings = read_settings("")
    source, account = settings.sources[0], settings.accounts[0]
    assert (settings.listener.host, settings.listener.port) == ("127.0.0.1", 8787)
    assert (source.name, source.id, source.accounts) == ("tradingview", "", ("paper",))
    assert (source.max_age, source.max_exit_age, source.rate) == (90 * SECOND, 15 * MINUTE, 0)
    assert (account.name, account.broker, account.cash) == ("paper", "paper", Decimal(100_000))
    assert (account.sizing, account.symbols, account.capital) == (SignalSizing(), "all", Decimal(0))
    assert (account.base_url, account.data_url, account.faults) == (None, None, ())
    assert (settings.risk.price_collar, settings.risk.cooldown) == (Decimal("0.02"), 0)
    assert settings.execution.max_order_age == 60 * SECOND
    assert settings.reconciliation.ghost_watch == 24 * HOUR
    assert settings.reconciliation.drift_tolerance == DriftTolerance(1)
    assert (settings.retention.bodies, settings.retention.keys) == (90 * DAY, None)


def test_every_value_has_the_type_that_its_field_declares() -> None:
    settings = read_settings(CONTRACT)
    assert msgspec.convert(msgspec.to_builtins(settings), Settings) == settings


def test_the_table_of_keys_and_the_structs_have_the_same_fields() -> None:
    for table in TABLES:
        assert [key.name for key in table.keys] == list(table.type.__struct_fields__)


def test_the_first_file_says_every_default_and_why() -> None:
    text = default_text()
    lines = text.splitlines()
    assert read_settings(text) == read_settings("")
    assert max(map(len, lines)) <= 110
    for table in TABLES:
        for key in table.keys:
            at = [
                number for number, line in enumerate(lines) if line.lstrip("# ").startswith(f"{key.name} = ")
            ]
            assert at, key.name
            assert all(lines[number - 1].startswith("# ") for number in at), key.name


def test_sources_and_accounts_are_a_default_each_for_itself() -> None:
    only_source = read_settings('[[sources]]\nname = "mine"\n')
    assert [source.name for source in only_source.sources] == ["mine"]
    assert [account.name for account in only_source.accounts] == ["paper"]
    only_account = read_settings('[[accounts]]\nname = "paper"\ncash = "5"\n')
    assert [source.name for source in only_account.sources] == ["tradingview"]
    assert only_account.accounts[0].cash == 5
    assert read_settings("sources = []\naccounts = []\n") == read_settings("")


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("0s", 0),
        ("500ms", 500_000),
        ("1.5s", 1_500_000),
        ("90s", 90 * SECOND),
        ("15m", 15 * MINUTE),
        ("24h", 24 * HOUR),
        ("90d", 90 * DAY),
        ("2w", 14 * DAY),
        ("90 s", 90 * SECOND),
        ("0.000001s", 1),
    ],
)
def test_durations(text: str, microseconds: int) -> None:
    assert parse_duration(text) == microseconds


@pytest.mark.parametrize(
    "text", ["", "90", "s", "-5s", "5S", "1M", "5 minutes", "1h30m", "٩s", "1e3s", "0.0000001s", "99999999d"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"write"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ('sizing = "quantity:10"', "sizing", QuantitySizing(Decimal(10))),
        ('sizing = "quantity:0.125"', "sizing", QuantitySizing(Decimal("0.125"))),
        ('sizing = "cash:1000"', "sizing", CashSizing(Decimal(1000))),
        ('sizing = "equity:5%"', "sizing", EquitySizing(Decimal("0.05"))),
        ('symbols = ["aapl", "BRK.B", "AAPL"]', "symbols", ("AAPL", "BRK.B")),
        ("symbols = []", "symbols", ()),
        ("cash = 5000", "cash", Decimal(5000)),
        ("cash = 0.10000000000000000555", "cash", Decimal("0.10000000000000000555")),
        ('cash = "0.10000000000000000555"', "cash", Decimal("0.10000000000000000555")),
        (
            "cash = 123456789012345.12345678901234567890",
            "cash",
            Decimal("123456789012345.12345678901234567890"),
        ),
        ('gate = "hold_account"', "gate", "hold_account"),
        ("allow_short = true", "allow_short", True),
    ],
)
def test_values_of_an_account(line: str, field: str, value: object) -> None:
    account = read_settings(f"[[accounts]]\n{line}\n").accounts[0]
    assert getattr(account, field) == value
    assert type(getattr(account, field)) is type(value)


def test_other_values() -> None:
    settings = read_settings(
        '[listener]\nhost = "localhost"\nport = 0\n'
        '[[sources]]\nrate = "30"\nduplicate_status = 409\nmax_exit_age = "1h"\n'
        '[risk]\nprice_collar = "0.5%"\nday_zone = "UTC"\n'
        '[reconciliation]\ndrift_tolerance = "5 steps"\nabsent_min_age = "1s"\n'
        '[retention]\nbodies = "forever"\nkeys = "400d"\n'
    )
    assert (settings.listener.host, settings.listener.port) == ("127.0.0.1", 0)
    assert (settings.sources[0].rate, settings.sources[0].duplicate_status) == (30, 409)
    assert settings.risk.price_collar == Decimal("0.005")
    assert settings.reconciliation.drift_tolerance == DriftTolerance(5)
    assert (settings.retention.bodies, settings.retention.keys) == (None, 400 * DAY)
    assert read_settings('[listener]\nhost = "::1"\n').listener.host == "::1"


def test_h44_an_empty_list_of_symbols_is_nothing_and_not_everything() -> None:
    def account(line: str) -> Account:
        return read_settings(f"[[accounts]]\n{line}\n").accounts[0]

    assert not account("symbols = []").allows("AAPL")
    assert account('symbols = "all"').allows("AAPL")
    assert account('symbols = ["aapl"]').allows("AAPL")
    assert not account('symbols = ["AAPL"]').allows("MSFT")


def test_h29_the_test_source_is_built_in_and_reaches_the_first_paper_account() -> None:
    settings = read_settings('[[accounts]]\nname = "paper"\n[[accounts]]\nname = "second"\n')
    source = settings.test_source
    assert source is not None
    assert (source.name, source.id, source.accounts) == (TEST_SOURCE, TEST_SOURCE, ("paper",))
    assert settings.source("test") is source
    assert settings.source("tradingview") is settings.sources[0]
    assert settings.all_sources == (*settings.sources, source)
    assert settings.source("nobody") is None
    assert not settings.reaches_live(source)


def test_first_start_writes_the_file_and_the_next_reads_it(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    first = load_or_create(home)
    assert (home / "config.toml").read_text("utf-8") == default_text()
    assert load_or_create(home) == first == read_settings("")
