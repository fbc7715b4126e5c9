"""The contract's paragraph 'Key': candidates, agreement, labels, bounds, derivation, windows."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.key import (
    RULE_VERSION,
    ChosenKey,
    HeaderKeys,
    KeyPolicy,
    choose_key,
    derived_key,
    is_label,
)
from app.domain.signal import InvalidSignal, KeySource
from tests.domain.alert_kit import read

TIMED: dict[str, object] = {"time": "2026-03-02T15:30:00Z", "interval": "15"}
WINDOW, REFUSE, ALL_LABELS = (
    KeyPolicy(),
    KeyPolicy(refuse_without_time=True),
    KeyPolicy(body_key_is_label=True),
)
NONE = HeaderKeys()


def choose(
    fields: dict[str, object], headers: HeaderKeys = NONE, policy: KeyPolicy = WINDOW, source: str = "s1"
) -> ChosenKey:
    return choose_key(source, read({**TIMED, **fields}), headers, policy)


def refusal(
    fields: dict[str, object], headers: HeaderKeys = NONE, policy: KeyPolicy = WINDOW
) -> tuple[str, tuple[str, ...]]:
    with pytest.raises(InvalidSignal) as refused:
        choose(fields, headers, policy)
    return refused.value.reason, refused.value.fields


def header(value: str) -> HeaderKeys:
    return HeaderKeys(idempotency_key=(value,))


# ------------------------------------------------------------------------------------------------ candidates


@pytest.mark.parametrize("name", ["key", "idempotency_key", "idempotencyKey", "id", "trace_id"])
def test_a_key_in_the_body(name: str) -> None:
    chosen = choose({name: " K-1 "})
    assert (chosen.key, chosen.source, chosen.from_header, chosen.warnings) == (
        "K-1",
        KeySource.BODY,
        False,
        (),
    )


@pytest.mark.parametrize(
    "headers",
    [
        HeaderKeys(idempotency_key=("K-1",)),
        HeaderKeys(x_idempotency_key=("K-1",)),
        HeaderKeys(webhook_id=("K-1",)),
        HeaderKeys(idempotency_key=("K-1",), x_idempotency_key=('"K-1"',)),
    ],
)
def test_a_key_in_a_header(headers: HeaderKeys) -> None:
    chosen = choose({}, headers)
    assert (chosen.key, chosen.source, chosen.from_header) == ("K-1", KeySource.HEADER, True)


def test_the_order_of_the_candidates() -> None:
    everything: dict[str, object] = {"id": "I-1", "trace_id": "T-1", "alert_id": "A-1"}
    webhook = HeaderKeys(webhook_id=("W-1",))
    assert choose({"key": "K-1", **everything}, webhook).key == "K-1"
    assert choose(everything, HeaderKeys(idempotency_key=("H-1",), webhook_id=("W-1",))).key == "H-1"
    assert choose(everything, webhook).key == "I-1"
    assert choose({"trace_id": "T-1"}, webhook).key == "T-1"
    assert choose({}, webhook).key == "W-1"


def test_body_and_headers_must_agree_when_present() -> None:
    both = HeaderKeys(idempotency_key=("K-1",), x_idempotency_key=("K-1",))
    chosen = choose({"key": "K-1"}, both)
    assert (chosen.key, chosen.source, chosen.from_header) == ("K-1", KeySource.BODY, True)
    assert refusal({"key": "K-2"}, header("K-1")) == ("keys_disagree", ("key", "Idempotency-Key"))
    two = HeaderKeys(idempotency_key=("K-1",), x_idempotency_key=("K-2",))
    assert refusal({}, two) == ("keys_disagree", ("Idempotency-Key", "X-Idempotency-Key"))
    assert refusal({"idempotencyKey": "K-2"}, two)[1][0] == "idempotencyKey"


def test_two_names_in_the_body_must_agree_too() -> None:
    assert choose({"key": "K-1", "idempotency_key": "K-1"}).key == "K-1"
    assert refusal({"key": "K-1", "idempotency_key": "K-2"}) == ("keys_disagree", ("key", "idempotency_key"))


def test_id_and_webhook_id_need_not_agree_with_anything() -> None:
    assert (
        choose({"key": "K-1", "id": "I-1", "trace_id": "T-1"}, HeaderKeys(webhook_id=("W-1",))).key == "K-1"
    )


def test_one_header_twice_is_refused() -> None:
    twice = HeaderKeys(idempotency_key=("K-1", "K-1"))
    assert refusal({}, twice) == ("repeated_header", ("Idempotency-Key",))
    assert refusal({}, HeaderKeys(webhook_id=("a-1", "a-1"))) == ("repeated_header", ("webhook-id",))


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ('"K-1"', "K-1"),
        (' "K-1"\t', "K-1"),
        ('"a \\"b\\" \\\\"', 'a "b" \\'),
        ("K-1", "K-1"),
        ('a"b', 'a"b'),
        ("'K-1'", "'K-1'"),
        ("Long", "Long"),
    ],
)
def test_headers_quoted_or_bare(sent: str, key: str) -> None:
    assert choose({}, header(sent)).key == key


@pytest.mark.parametrize("sent", ['"K-1', '"a"b"', '"K-1"; p=1', '"\\x"', '"é"'])
def test_a_header_that_opens_a_quote_must_be_a_string(sent: str) -> None:
    assert refusal({}, header(sent)) == ("invalid_key", ("Idempotency-Key",))


# ---------------------------------------------------------------------------------------------------- bounds


def test_length_is_counted_after_nfc_and_trimming_and_never_cut() -> None:
    assert choose({"key": " " + "1" * 255 + " "}).key == "1" * 255
    assert refusal({"key": "1" * 256}) == ("key_too_long", ("key",))
    assert refusal({}, header("1" * 256)) == ("key_too_long", ("Idempotency-Key",))
    assert choose({"key": "🚀" * 255}).key == "🚀" * 255
    assert choose({"key": "e\u0301" * 255}).key == "é" * 255
    assert refusal({"id": "1" * 256}) == ("key_too_long", ("id",))


def test_one_text_in_two_spellings_is_one_key() -> None:
    assert choose({"key": "1e\u0301"}).key == choose({"key": "1\u00e9 "}).key == choose({}, header("1é")).key


@pytest.mark.parametrize("text", ["a1\0b", "a1\x1fb", "a1\nb", "a1\x7f", "a1\x85b", "a1\ud800"])
def test_what_is_no_text_is_no_key(text: str) -> None:
    assert refusal({"key": text}) == ("invalid_key", ("key",))
    assert refusal({}, header(text)) == ("invalid_key", ("Idempotency-Key",))


@pytest.mark.parametrize("absent", ["", "   ", None])
def test_nothing_is_absent(absent: str | None) -> None:
    assert choose({"key": absent, "id": absent}).source is KeySource.DERIVED
    assert choose({}, header(absent or '""')).source is KeySource.DERIVED


def test_a_number_is_its_text() -> None:
    assert choose({"id": Decimal(1772465400)}).key == "1772465400"
    assert choose({"id": Decimal("12345678901234567890123456789012345678.5")}).key.endswith("678.5")


def test_case_and_inner_spaces_count() -> None:
    assert len({choose({"key": key}).key for key in ("a-1", "A-1", "a -1", "a  -1")}) == 4


# ---------------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize("text", ["Long", "Long Entry", "ema_cross-up", "L", "Größe", "a" * 20, "   ", "- _"])
def test_labels(text: str) -> None:
    assert is_label(text)


@pytest.mark.parametrize("text", ["TP1", "L2", "a" * 21, "a.b", "a:b", "AAPL|buy", "🚀"])
def test_identities(text: str) -> None:
    assert not is_label(text)


@pytest.mark.parametrize("name", ["key", "idempotency_key", "id", "trace_id"])
def test_a_label_is_no_identity_and_warns(name: str) -> None:
    chosen = choose({name: "Long"})
    assert (chosen.source, chosen.label) == (KeySource.DERIVED, "Long")
    assert chosen.key == derived_key("s1", read(TIMED).signal, "Long")
    assert chosen.warnings[0].startswith(f"label_key: {name} names")


def test_a_label_takes_no_part_in_agreement_and_the_next_candidate_is_used() -> None:
    assert choose({"key": "Long"}, header("H-1")).key == "H-1"
    assert choose({"key": "Long", "id": "I-1"}).key == "I-1"
    assert choose({"key": "Long", "id": "Short"}, HeaderKeys(webhook_id=("W-1",))).key == "W-1"
    assert choose({"key": "Long", "id": "Short"}).label == "Long"


def test_a_header_is_never_a_label() -> None:
    assert choose({}, header("Long")).source is KeySource.HEADER
    assert choose({}, HeaderKeys(webhook_id=("Long",))).source is KeySource.HEADER


def test_h11_every_body_key_may_be_declared_a_label() -> None:
    assert choose({"key": "TP1"}).source is KeySource.BODY
    chosen = choose({"key": "TP1", "id": "83421"}, policy=ALL_LABELS)
    assert (chosen.source, chosen.label) == (KeySource.DERIVED, "TP1")
    assert choose({"key": "TP1"}, header("H-1"), ALL_LABELS).key == "H-1"


def test_h11_alert_id_is_always_a_label() -> None:
    chosen = choose({"alert_id": "83421"})
    assert (chosen.source, chosen.label, chosen.warnings) == (KeySource.DERIVED, "83421", ())
    assert choose({"alert_id": "83421", "key": "Long"}).label == "Long"


# -------------------------------------------------------------------------------------------------- derived


BARE = choose({}).key


def test_a_derived_key_says_its_rule() -> None:
    assert choose({}).source is KeySource.DERIVED
    assert BARE.startswith(f"d{RULE_VERSION}:")
    assert len(BARE) == 3 + 64


@pytest.mark.parametrize(
    "fields",
    [
        {"strategy": "EMA"}, {"exchange": "NASDAQ"}, {"symbol": "NASDAQ:AAPL"}, {"symbol": "MSFT"},
        {"interval": "1h"}, {"time": "2026-03-02T15:45:00Z"}, {"action": "sell"}, {"order_id": "Long"},
        {"key": "Long"}, {"alert_id": "7"},
        {"market_position": "long"}, {"market_position": "long", "market_position_size": "5"},
        {"prev_market_position": "flat"}, {"prev_market_position": "long", "prev_market_position_size": "5"},
    ],
)  # fmt: skip
def test_what_tells_derived_keys_apart(fields: dict[str, object]) -> None:
    assert choose(fields).key != BARE


@pytest.mark.parametrize(
    "fields",
    [
        {"quantity": "11"}, {"price": "189.25"}, {"close": "1"}, {"timenow": "2026-03-02T15:30:07Z"},
        {"comment": "x"}, {"secret": "x"}, {"limit_price": "5"}, {"tif": "day"}, {"side": "LONG"},
        {"timeframe": "15m", "interval": None}, {"time": "2026-03-02T16:30:00+01:00"},
        {"time": Decimal(1772465400)}, {"time": Decimal(1772465400000)},
    ],
)  # fmt: skip
def test_what_does_not(fields: dict[str, object]) -> None:
    assert choose(fields).key == BARE


def test_partial_exits_pyramids_and_close_with_entry_on_one_bar_stay_apart() -> None:
    def step(action: str, before: int, after: int) -> str:
        def side(size: int) -> str:
            return "flat" if size == 0 else "long" if size > 0 else "short"

        fields: dict[str, object] = {
            "action": action, "order_id": "L",
            "market_position": side(after), "market_position_size": Decimal(abs(after)),
            "prev_market_position": side(before), "prev_market_position_size": Decimal(abs(before)),
        }  # fmt: skip
        return choose(fields).key

    steps = [("buy", 0, 1), ("buy", 1, 2), ("sell", 2, 1), ("sell", 1, 0), ("sell", 0, -1), ("sell", 1, -1)]
    assert len({step(*s) for s in steps}) == len(steps)
    assert step("buy", 0, 1) == step("buy", 0, 1)


def test_sources_do_not_share_derived_keys() -> None:
    assert choose({}, source="s2").key != BARE


def test_parts_of_a_derived_key_do_not_run_into_each_other() -> None:
    assert choose({"strategy": "a", "order_id": "bc"}).key != choose({"strategy": "ab", "order_id": "c"}).key


# --------------------------------------------------------------------------------------------- without time


UNTIMED: dict[str, object] = {"time": None, "interval": None}


def test_without_a_bar_time_the_key_is_the_intent_of_a_window() -> None:
    chosen = choose(UNTIMED)
    assert (chosen.source, chosen.key[:3]) == (KeySource.WINDOW, f"w{RULE_VERSION}:")
    assert chosen.warnings[0].startswith("window_key:")
    same: list[dict[str, object]] = [
        {"quantity": "10.0"},
        {"price": "1"},
        {"timenow": "2026-03-02T15:30:07Z"},
    ]
    assert {choose({**UNTIMED, **fields}).key for fields in same} == {chosen.key}
    others: list[dict[str, object]] = [
        {"quantity": "11"},
        {"action": "exit"},
        {"key": "Long"},
        {"order_id": "L"},
    ]
    assert chosen.key not in {choose({**UNTIMED, **fields}).key for fields in others}


def test_h15_a_fire_time_as_bar_time_takes_no_part_in_the_key() -> None:
    one, two = (choose({"time": f"2026-03-02T15:30:0{second}Z"}) for second in (1, 2))
    assert one.key == two.key
    assert one.source is KeySource.WINDOW


def test_h14_a_source_may_refuse_what_has_no_identity() -> None:
    assert refusal(UNTIMED, policy=REFUSE) == ("missing_key", ("key",))
    assert refusal({**UNTIMED, "key": "Long"}, policy=REFUSE) == ("missing_key", ("key",))
    assert choose({}, policy=REFUSE).source is KeySource.DERIVED
    assert choose({**UNTIMED, "key": "K-1"}, policy=REFUSE).source is KeySource.BODY


# ----------------------------------------------------------------------------------------------- properties


@settings(deadline=None)
@given(st.text(max_size=300), st.text(max_size=300), st.booleans())
def test_any_text_is_a_key_or_refused(in_body: str, in_header: str, labels: bool) -> None:
    try:
        chosen = choose({"key": in_body}, header(in_header), KeyPolicy(body_key_is_label=labels))
    except InvalidSignal as error:
        known = {"invalid_key", "key_too_long", "keys_disagree", "unsubstituted_placeholder"}
        assert error.reason in known  # noqa: PT017 both outcomes are right
        return
    assert 1 <= len(chosen.key) <= 255
    assert chosen.key == chosen.key.strip()
    assert chosen.key.encode()


@settings(deadline=None)
@given(
    st.permutations([*TIMED.items(), ("symbol", "AAPL"), ("action", "buy"), ("quantity", Decimal(10))]),
    st.sampled_from(["10", "10.0", "1e1", " 10 ", Decimal("10.000")]),
)
def test_a_derived_key_does_not_depend_on_order_or_spelling(
    pairs: list[tuple[str, object]], quantity: object
) -> None:
    assert choose({**dict(pairs), "quantity": quantity}).key == BARE
