"""The words for each reason of a refusal: what is wrong, and the remedy where the door's sentence has none.

Data that `explain.py` walks; nothing is decided here.
"""

from __future__ import annotations

HEADS: dict[str, str] = {
    "bad_secret": "its secret is wrong",
    "batch_unsupported": "it is a list of orders",
    "body_over_64_kib": "it is too long",
    "contradictory": "it says two different things",
    "control_character": "a character in it cannot be shown",
    "delayed_data": "its prices are delayed",
    "duplicate_key": "a field comes twice",
    "empty_body": "it is empty",
    "in_future": "its time has not come yet",
    "intent_differs": "its key was used for another order",
    "invalid_interval": "its interval cannot be read",
    "invalid_json": "its JSON is broken",
    "invalid_key": "its key cannot be used",
    "invalid_number": "a number cannot be read",
    "invalid_symbol": "its symbol cannot be read",
    "invalid_time": "a time cannot be read",
    "invalid_value": "a value is none of those that there are",
    "key_reused": "its key was used for another signal",
    "key_too_long": "its key is too long",
    "keys_disagree": "it carries two different keys",
    "lone_surrogate": "half a character is in it",
    "missing_field": "something is missing",
    "missing_key": "nothing tells it from its repeat",
    "missing_quantity": "it does not say how much",
    "missing_secret": "its secret is missing",
    "naive_time": "a time has no zone",
    "negative_size": "a size is below zero",
    "non_finite_number": "a number is none",
    "non_positive_price": "a price is not above zero",
    "non_positive_quantity": "a quantity is not above zero",
    "not_an_order_message": "it is text, not a message for Onefill",
    "not_utf8": "it is not UTF-8",
    "number_out_of_range": "a number is far too large or small",
    "number_too_long": "a number has too many digits",
    "repeated_header": "a header comes twice",
    "stale": "it comes too late",
    "before_watermark": "its time is before what keys are kept for",
    "string_too_long": "a text in it is too long",
    "too_deep": "it is nested too deep",
    "too_many_fields": "it has too many fields",
    "unknown_field": "a field is not known, and money is behind this source",
    "unreadable": "it cannot be read, so its secret cannot either",
    "unsubstituted_placeholder": "a placeholder was not filled in",
    "unsupported_field": "a field would change the order and is not supported",
    "value_too_long": "a value is too long",
}

REMEDIES: dict[str, str] = {
    "bad_secret": "Put the secret of this source there; Settings, Secrets sets a new one.",
    "batch_unsupported": "Make one alert for each order.",
    "body_over_64_kib": "A message has at most 65,536 bytes; one order needs less than a thousand.",
    "contradictory": "Keep one of the two.",
    "delayed_data": "Subscribe to real-time data of that exchange, or use another feed of the symbol.",
    "duplicate_key": "Remove one of the two.",
    "empty_body": "Paste a message into the alert's message field; the alert builder makes one.",
    "in_future": 'Use "fired_at": "{{timenow}}" and "bar_time": "{{time}}", and set the clock right.',
    "intent_differs": "Give every signal a key of its own, or send none: one is derived from the message.",
    "key_reused": "Give every signal a key of its own, or send none: one is derived from the message.",
    "key_too_long": "Send a shorter key, or none: one is derived from the message.",
    "missing_field": 'As "symbol": "{{ticker}}" and "action": "buy" or "{{strategy.order.action}}".',
    "missing_quantity": 'Add "quantity": "1" or "{{strategy.order.contracts}}", or let every account of the '
    "source size its entries (setting `sizing`).",
    "missing_secret": 'Add "secret": "..." with the secret of this source.',
    "naive_time": "TradingView's {{time}} and {{timenow}} have one.",
    "not_an_order_message": "The alert builder makes a message to paste over the default one.",
    "stale": "If it was meant, send it again now; limits are max_age and max_exit_age of the source.",
    "before_watermark": "Send a new signal with its own time; an old one cannot be told from a replay.",
    "unknown_field": "Remove it, or put it under extras.",
    "unreadable": "Correct the JSON: nothing is kept of a message whose secret cannot be read.",
    "unsubstituted_placeholder": "Placeholders with strategy. work only in a strategy's alert, none work in "
    "alert(), and a misspelt one is never filled in.",
}


def fallback_head(reason: str) -> str:
    """For a reason that has no words here yet."""
    return reason.replace("_", " ") or "it cannot be taken"
