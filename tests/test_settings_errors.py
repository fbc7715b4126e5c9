"""Every mistake in config.toml stops the start with its line and its reason, in one line."""

from pathlib import Path

import pytest

from app.settings import BROKERS, BrokerKind, ConfigError, default_text, read_settings
from app.settings.errors import key_lines

PATH = Path("home/config.toml")


def error(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_settings(text, PATH)
    said = str(caught.value)
    assert "\n" not in said
    line = "" if caught.value.line is None else f":{caught.value.line}"
    assert said == f"{PATH}{line}: {caught.value.message}"
    return caught.value


@pytest.fixture
def venue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker with a wire, as a later version has them."""
    kind = BrokerKind(simulated=False, brackets=True, sandbox_hosts=frozenset({"sandbox.venue.example"}))
    monkeypatch.setitem(BROKERS, "venue", kind)


# Text of the file, the line that is named, and what has to be said.
CASES: list[tuple[str, int, tuple[str, ...]]] = [
    # Not TOML
    ("[listener]\nport = \n", 2, ("TOML", "column 8")),
    ('[listener]\nhost = "127.0.0.1\n', 2, ("TOML", "check quotes")),
    ("[risk]\ncooldown = '1s'\ncooldown = '2s'\n", 3, ("second time", "remove one")),
    ("[risk]\n[execution]\n[risk]\n", 3, ("second time",)),
    # Unknown names
    ("[listner]\nport = 1\n", 1, ("listner is unknown", "did you mean listener?")),
    ("[listener]\n\nprot = 1\n", 3, ("[listener] prot", "did you mean port?")),
    ("[risk]\nmax_age = '1s'\n", 2, ("[risk] max_age", "belongs in [[sources]]")),
    ("[risk]\nzzz = 1\n", 2, ("[risk] zzz", "remove it", "cooldown")),
    ("[[sources]]\nname = 'a'\n[[sources]]\nname = 'b'\nmaxage = '1s'\n", 5, ("did you mean max_age?",)),
    ("[risk.cooldowns]\na = 1\n", 1, ("did you mean cooldown?",)),
    ("[[sources]]\nsymbols = 'all'\n", 2, ("belongs in [[accounts]]",)),
    # Wrong shapes
    ("listener = 3\n", 1, ("listener is a table", "[listener]")),
    ("[[risk]]\n", 1, ("risk is a table", "[risk]")),
    ("[sources]\nname = 'a'\n", 1, ("list of tables", "[[sources]]")),
    ("# x\nsources = ['a']\n", 2, ("list of tables", "[[sources]]")),
    # Wrong kinds
    ('[listener]\nport = "8787"\n', 2, ('port = "8787"', "without quotes")),
    ("[listener]\nport = true\n", 2, ("port = true", "whole number")),
    ("[listener]\nport = 65536\n", 2, ("port = 65536", "from 0 to 65535")),
    ("[listener]\nport = -1\n", 2, ("from 0 to 65535",)),
    ("[listener]\nhost = '0.0.0.0'\n", 2, ("not this machine alone", "tunnel")),
    ("[listener]\nhost = '192.168.1.4'\n", 2, ("not this machine alone", "tunnel")),
    ("[listener]\nhost = '::'\n", 2, ("not this machine alone", "tunnel")),
    ("[listener]\nhost = '::ffff:127.0.0.1'\n", 2, ("not this machine alone",)),
    ("[listener]\nhost = 'example.org'\n", 2, ("not an address", "tunnel")),
    ("[listener]\nhost = 127\n", 2, ("in quotes",)),
    ("[[sources]]\nmax_age = 90\n", 2, ("max_age = 90", 'as "90s"')),
    ("[[sources]]\nmax_age = '90'\n", 2, ('max_age = "90"', '"90s"')),
    ("[[sources]]\nmax_age = '0s'\n", 2, ("above zero",)),
    ("[[sources]]\nauth = 'header'\n", 2, ('"path" or "body"',)),
    ("[[sources]]\nformat = 'pipe'\n", 2, ("format", '"auto"')),
    ("[[sources]]\nduplicate_status = 400\n", 2, ("200 or 409",)),
    ("[[sources]]\nduplicate_status = '200'\n", 2, ("200 or 409",)),
    ("[[sources]]\nrate = '1.5'\n", 2, ("whole number of entries",)),
    ("[[sources]]\nrate = true\n", 2, ("rate = true", "number")),
    ("[[sources]]\naccounts = 'paper'\n", 2, ('["paper"]',)),
    ("[[sources]]\naccounts = []\n", 2, ("at least one",)),
    ("[[sources]]\naccounts = ['paper', 'paper']\n", 2, ("twice",)),
    ("[[sources]]\nname = 'Trading View'\n", 2, ("1 to 32 small letters",)),
    ("[[sources]]\nname = ''\n", 2, ("1 to 32",)),
    (f"[[sources]]\nname = '{'a' * 33}'\n", 2, ("1 to 32",)),
    ("[[sources]]\nid = 'a b'\n", 2, ("letters, digits",)),
    ("[[accounts]]\nlive = 'no'\n", 2, ("true or false",)),
    ("[[accounts]]\ncash = 'lots'\n", 2, ("number of digits",)),
    ("[[accounts]]\ncash = '1_000'\n", 2, ("number of digits",)),
    ("[[accounts]]\ncash = '-1'\n", 2, ("number of digits",)),
    ("[[accounts]]\ncash = -1\n", 2, ("from 0",)),
    ("[[accounts]]\ncash = nan\n", 2, ("from 0",)),
    ("[[accounts]]\ncash = inf\n", 2, ("from 0",)),
    ("[[accounts]]\ncash = 1e99999\n", 2, ("from 0",)),
    ("[[accounts]]\ncash = 1e-30\n", 2, ("20 digits",)),
    ("[[accounts]]\ncash = 123456789012345.123456789012345678901\n", 2, ("20 digits",)),
    ("[[accounts]]\nsizing = 'shares:10'\n", 2, ('"quantity:10"',)),
    ("[[accounts]]\nsizing = 'quantity:0'\n", 2, ("above zero",)),
    ("[[accounts]]\nsizing = 'equity:5'\n", 2, ('"equity:5%"',)),
    ("[[accounts]]\nsizing = 'equity:101%'\n", 2, ('"equity:5%"',)),
    ("[[accounts]]\nsizing = 10\n", 2, ("in quotes",)),
    ("[[accounts]]\nsymbols = 'AAPL'\n", 2, ('["AAPL", "MSFT"]',)),
    ("[[accounts]]\nsymbols = ['all']\n", 2, ("stands alone",)),
    ("[[accounts]]\nsymbols = ['NASDAQ:AAPL']\n", 2, ("leave the exchange out", "'AAPL'")),
    ("[[accounts]]\nsymbols = ['']\n", 2, ("1 to 64 characters",)),
    ("[[accounts]]\nfaults = 'x'\n", 2, ("list of texts",)),
    ("[risk]\nposition_divisor = 0\n", 2, ("from 1",)),
    ("[risk]\nposition_divisor = 2.5\n", 2, ("position_divisor = 2.5", "whole number")),
    ("[risk]\nprice_collar = 0.02\n", 2, ('"2%"',)),
    ("[risk]\nprice_collar = '0%'\n", 2, ("above 0%",)),
    ("[risk]\nprice_collar = '200%'\n", 2, ("at most 100%",)),
    ("[risk]\nday_zone = 'New York'\n", 2, ("time zone", "America/New_York")),
    ("[risk]\nday_zone = '../../etc/passwd'\n", 2, ("time zone",)),
    ("[risk]\ncooldown = 1979-05-27\n", 2, ("in quotes",)),
    ("[reconciliation]\ndrift_tolerance = '1%'\n", 2, ('"1 step"',)),
    ("[reconciliation]\nabsent_min_age = '999ms'\n", 2, ("at least 1 s",)),
    ("[reconciliation]\nabsent_confirmations = 0\n", 2, ("from 1",)),
    ("[retention]\nkeys = 'never'\n", 2, ('"forever"',)),
    ("[retention]\nkeys = '31d'\n", 2, ("at least", '"forever"')),
    ("[retention]\nbodies = 90\n", 2, ('"forever"',)),
    ("[retention]\nbackups = 0\n", 2, ("from 1",)),
    # Contradictions
    ("[[sources]]\nname = 'a'\n[[sources]]\nname = 'a'\n", 4, ("twice", "its own name")),
    ("[[sources]]\n[[sources]]\n", 2, ('"tradingview"', "twice")),
    ("[[accounts]]\nname = 'a'\n[[accounts]]\nname = 'a'\n", 4, ("twice",)),
    ("[[sources]]\nname = 'a-b'\n[[sources]]\nname = 'a_b'\n", 4, ("environment", '"a-b"')),
    ("[[sources]]\nname = 'test'\n", 2, ("built in",)),
    ("[[sources]]\nid = 'test'\n", 2, ('also that of "test"',)),
    ("[[sources]]\nname = 'a'\nid = 'x'\n[[sources]]\nname = 'b'\nid = 'x'\n", 6, ('"b"', '"a"', "swallow")),
    (
        "[[sources]]\nname = 'a'\naccounts = [\n  'papre',\n]\n",
        3,
        ('no account "papre"', "did you mean paper?"),
    ),
    ("[[accounts]]\nname = 'main'\n", 1, ("accounts (the default)", 'no account "paper"', "there is: main")),
    ("[[sources]]\nname = 'a'\n[[accounts]]\nname = 'main'\n", 1, ("accounts (the default)",)),
    ("[[accounts]]\nbroker = 'ibkr'\n", 2, ("not in this version", "there is: paper, alpaca")),
    ("[[accounts]]\nbroker = 'papper'\n", 2, ("did you mean paper?",)),
    ("[[accounts]]\nlive = true\n", 2, ("paper is no money", "write false")),
    ("[[accounts]]\nbase_url = 'https://a.example'\n", 2, ("paper has no address", "remove it")),
    ("[[accounts]]\nbrackets = 'place'\n", 2, ("cannot place them", '"refuse"')),
    ("[[accounts]]\nfaults = ['storm']\n", 2, ('"storm" is no fault', "reply_lost_before")),
    ("[[accounts]]\nfaults = ['reply_lost_befor']\n", 2, ("did you mean reply_lost_before?",)),
    ("[[accounts]]\nfaults = ['reply_lost_after:1']\n", 2, ("stands alone",)),
    ("[[accounts]]\nfaults = ['lookup_lag']\n", 2, ("a number of looks, as lookup_lag:3",)),
    ("[[accounts]]\nfaults = ['reject:no']\n", 2, ("a code in capitals",)),
    ("[[accounts]]\nfaults = ['slow_reply:2']\n", 2, ("not a time",)),
    ("[[accounts]]\nfaults = ['reject:NO', 'lookup_lag:2*3']\n", 2, ("goes with the fault before it",)),
    ("[[accounts]]\nfaults = ['reject:NO*0']\n", 2, ("is no fault",)),
]


@pytest.mark.parametrize(("text", "line", "parts"), CASES, ids=[repr(text) for text, _, _ in CASES])
def test_each_mistake_has_its_line_and_its_reason(text: str, line: int, parts: tuple[str, ...]) -> None:
    caught = error(text)
    assert caught.line == line, str(caught)
    for part in parts:
        assert part in caught.message


LIVE = "[[accounts]]\nname = 'live'\nbroker = 'venue'\nlive = true\n"
PAPER = "[[accounts]]\nname = 'paper'\n"
SOURCE = "[[sources]]\nname = 'a'\naccounts = ['live']\n"


@pytest.mark.usefixtures("venue")
@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        (SOURCE + "without_time = 'refuse'\n" + LIVE, 5, ('"live" trades money', "symbols")),
        (
            "[[sources]]\nname = 'a'\naccounts = ['live', 'paper']\nwithout_time = 'refuse'\n"
            + LIVE
            + "symbols = 'all'\n"
            + PAPER,
            3,
            ('"live" is live and "paper" is not', "two sources"),
        ),
        (PAPER.replace("name", "broker = 'venue'\ncash = '5'\nname"), 3, ("cash is for paper",)),
        (PAPER.replace("name", "broker = 'venue'\nfills = 'async'\nname"), 3, ("fills is for paper",)),
        (LIVE + "base_url = 'http://a.example'\n", 5, ("https://",)),
        (LIVE + "base_url = 'ftp://a.example'\n", 5, ("must be an address",)),
        (LIVE + "base_url = 'https://'\n", 5, ("must be an address",)),
        (LIVE + "base_url = 'https://a.example/?x=1'\n", 5, ("query",)),
        (LIVE + "data_url = 7\n", 5, ("must be an address",)),
    ],
)
def test_mistakes_with_an_account_that_trades_money(text: str, line: int, parts: tuple[str, ...]) -> None:
    caught = error(text)
    assert caught.line == line, str(caught)
    for part in parts:
        assert part in caught.message


@pytest.mark.usefixtures("venue")
def test_h14_a_source_that_reaches_money_says_what_becomes_of_alerts_without_a_time() -> None:
    live = LIVE + "symbols = ['AAPL']\n"
    caught = error(SOURCE + live)
    assert caught.line == 1
    assert "without_time" in caught.message
    for word in ("refuse", "window"):
        settings = read_settings(SOURCE + f"without_time = '{word}'\n" + live)
        assert settings.sources[0].without_time == word
        assert settings.reaches_live(settings.sources[0])


@pytest.mark.usefixtures("venue")
def test_h14_h44_the_file_of_the_first_start_says_nothing_in_the_persons_name() -> None:
    """A default that was written by us is not said by a person: both words are still asked for."""
    text = default_text().replace('accounts = ["paper"]', 'accounts = ["live"]')
    assert "without_time" in error(text + LIVE + "symbols = 'all'\n").message
    as_live = (
        default_text().replace('broker = "paper"', 'broker = "venue"').replace("live = false", "live = true")
    )
    for key in ('cash = "100000"\n', 'fills = "async"\n', "faults = []\n"):
        as_live = as_live.replace(key, "")
    assert "symbols" in error(as_live).message


@pytest.mark.usefixtures("venue")
def test_h13_live_is_decided_by_the_host_and_the_flag_may_only_agree() -> None:
    def account(live: str, url: str) -> str:
        text = f"[[accounts]]\nname = 'paper'\nbroker = 'venue'\nlive = {live}\nbase_url = '{url}'\n"
        text += "symbols = 'all'\n"
        return text + "[[sources]]\nwithout_time = 'refuse'\n"

    assert "counts as live" in error(account("false", "https://api.venue.example")).message
    assert "is a sandbox" in error(account("true", "https://sandbox.venue.example")).message
    for live, url in [
        ("false", "https://sandbox.venue.example/"),
        ("true", "https://api.venue.example"),
        ("false", "http://127.0.0.1:9000"),
        ("true", "http://[::1]:9000"),
        ("false", "http://localhost:9000"),
    ]:
        assert read_settings(account(live, url)).accounts[0].base_url == url.rstrip("/")


@pytest.mark.parametrize(
    ("live", "url", "problem"),
    [
        ("false", "https://api.alpaca.markets", "counts as live"),
        ("false", "https://API.alpaca.markets/v2", "counts as live"),
        ("false", "https://paper-api.alpaca.markets.example", "counts as live"),
        ("false", "https://proxy.example", "counts as live"),
        ("true", "https://paper-api.alpaca.markets", "is a sandbox"),
        ("true", "https://paper-api.alpaca.markets:443/v2", "is a sandbox"),
        ("false", "https://paper-api.alpaca.markets", ""),
        ("false", "http://127.0.0.1:9000", ""),
        ("true", "http://127.0.0.1:9000", ""),
        ("true", "https://api.alpaca.markets", ""),
        ("true", "https://proxy.example", ""),
    ],
)
def test_h13_alpacas_own_addresses_say_what_is_live(live: str, url: str, problem: str) -> None:
    text = f"[[accounts]]\nname = 'a'\nbroker = 'alpaca'\nlive = {live}\nbase_url = '{url}'\nsymbols = []\n"
    text += "[[sources]]\nwithout_time = 'refuse'\naccounts = ['a']\n"
    if problem:
        assert problem in error(text).message
    else:
        assert read_settings(text).accounts[0].base_url == url


@pytest.mark.usefixtures("venue")
def test_h29_the_test_source_never_reaches_money() -> None:
    live = LIVE + "symbols = 'all'\n" + SOURCE + "without_time = 'refuse'\n"
    assert read_settings(live).test_source is None
    sandbox = "[[accounts]]\nname = 'sandbox'\nbroker = 'venue'\n"
    both = read_settings(live + sandbox + PAPER).test_source
    assert both is not None
    assert both.accounts == ("paper",)
    one = read_settings(live + sandbox).test_source
    assert one is not None
    assert one.accounts == ("sandbox",)


@pytest.mark.parametrize(
    "text",
    [
        "[[sources]]\ntoken = 'hunter2hunter2'\n",
        "[[accounts]]\napi_key = 'hunter2hunter2'\n",
        "[[accounts]]\nsecret_key = 'hunter2hunter2'\n",
        "passphrase = 'hunter2hunter2'\n",
        "[secrets]\na = 'hunter2hunter2'\n",
        "[[accounts]]\nbase_url = 'https://me:hunter2hunter2@a.example'\n",
        "[[accounts]]\nbase_url = 'hunter2hunter2'\n",
        "[[accounts]]\nbase_url = 'https://a.example:hunter2hunter2'\n",
    ],
)
def test_a_secret_in_the_file_is_refused_and_never_repeated(text: str) -> None:
    said = str(error(text))
    assert "hunter2" not in said
    assert "secret" in said or "address" in said


@pytest.mark.parametrize(
    "value",
    ["9" * 5000, "1e99999999999999999999", "[" * 5000 + "]" * 5000],
    ids=["digits", "exponent", "nesting"],
)
def test_a_value_beyond_all_bounds_is_an_error_like_any_other(value: str) -> None:
    assert "far too large" in error(f"[[accounts]]\ncash = {value}\n").message


def test_a_long_value_is_not_poured_into_the_message() -> None:
    assert len(str(error(f"[[sources]]\nauth = '{'x' * 5000}'\n"))) < 200


def test_lines_of_keys_in_every_notation() -> None:
    text = (
        "top.dotted = 1\n"  # 1
        "[listener] # comment ] = [\n"  # 2
        'host = """\n'  # 3
        "port = 1\n"  # inside the text
        '[risk]"""\n'  # inside the text
        "port = 2 # x = 'y\n"  # 6
        "[[sources]]\n"  # 7
        "accounts = [ # ]\n"  # 8
        "  'a=]',\n"
        '  "b\\"]",\n'
        "]\n"
        "'quoted key' = '''x\n"  # 12
        "'''\n"
        "name = 'n'\n"  # 14
        "\n"
        "[[ sources ]]\n"  # 16
        "  name = {a = 1}\n"  # 17
        "[sources.extra]\n"  # 18
        "deep = 1\n"  # 19
        'escaped = "\\" ["\n'  # 20
        "after = 1\n"  # 21
    )
    assert key_lines(text) == {
        ("top",): 1,
        ("top", "dotted"): 1,
        ("listener",): 2,
        ("listener", "host"): 3,
        ("listener", "port"): 6,
        ("sources",): 7,
        ("sources", 0): 7,
        ("sources", 0, "accounts"): 8,
        ("sources", 0, "quoted key"): 12,
        ("sources", 0, "name"): 14,
        ("sources", 1): 16,
        ("sources", 1, "name"): 17,
        ("sources", 1, "extra"): 18,
        ("sources", 1, "extra", "deep"): 19,
        ("sources", 1, "extra", "escaped"): 20,
        ("sources", 1, "extra", "after"): 21,
    }


def test_lines_do_not_move_with_line_endings_and_odd_separators() -> None:
    text = "# \u2028 \x85 a comment\r\n[risk]\r\nposition_divisor = 0\r\n"
    assert error(text).line == 3
