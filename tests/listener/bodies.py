"""Bodies full of secrets, made up: sound JSON in which every secret holds MARK and nothing else does."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

SECRET_NAMES = [
    "secret", "passphrase", "password", "token", "api_key", "apiKey", "API-KEY", "Secret", "webhook_secret",
    "auth_token", "x-api-key", "private_key", "access_key", "license_id", "pin", "webhook_url", "pass",
]  # fmt: skip


MARK = "ZQX"
"""In every generated secret and nowhere else."""

_awkward = st.lists(
    st.sampled_from([*"ab1 \\\"',:;{}[]&|=\n\té\u2028🚀", "\\u0041", '","x":"']), max_size=12
).map("".join)
_secret = st.tuples(_awkward, _awkward).map(lambda parts: parts[0] + MARK + parts[1])
_plain: Any = st.none() | st.booleans() | st.integers() | _awkward
_hidden: Any = st.recursive(
    _secret,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)


def _object(inner: Any) -> Any:
    """Pairs, so that names may come twice."""
    ordinary = st.tuples(st.sampled_from(["a", "key", "quantity", 'q"q', "é"]), inner)
    secret = st.tuples(st.sampled_from(SECRET_NAMES), _hidden)
    return st.lists(ordinary | secret, max_size=4).map(Pairs)


class Pairs(list[tuple[str, Any]]):
    pass


BODIES: Any = _object(
    st.recursive(_plain, lambda inner: st.lists(inner, max_size=3) | _object(inner), max_leaves=5)
)


def written(value: Any, escape_names: bool) -> str:
    """JSON of pairs; with the first letter of every name escaped where asked for."""
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{_name(n, escape_names)}: {written(v, escape_names)}" for n, v in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(written(item, escape_names) for item in value) + "]"
    return json.dumps(value)


def _name(name: str, escaped: bool) -> str:
    return (
        f'"\\u{ord(name[0]):04x}{json.dumps(name)[2:]}' if escaped and name[0].isalnum() else json.dumps(name)
    )
