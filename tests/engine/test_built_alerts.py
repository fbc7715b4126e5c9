"""Every message that the alert builder makes, posted to the real door with its placeholders filled in."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.clock import ManualClock
from app.domain.alert import AlertRules
from app.domain.alert_builder import SECRET_HERE, message
from app.domain.placeholders import fill_in
from app.listener.auth import Credential, secret_digest
from tests.domain.test_alert_builder import AT, COMBINATIONS, CONFIG, RULES, choice_of
from tests.execution.kit import desk
from tests.listener.kit import HOOK, TOKEN, admission, opened, post, source

SECRET = "demo-pass-000"


@pytest.mark.parametrize("rules", list(RULES))
async def test_every_message_is_accepted_once_and_then_a_duplicate(tmp_path: Path, rules: str) -> None:
    source_rules, _ = RULES[rules]
    account = 'sizing = "cash:1000"' if source_rules.accounts_size else ""
    clock = ManualClock(AT)
    auth = "body" if source_rules.secret_in_body else "path"
    access = source(
        id="tv-id",
        auth=auth,
        rules=AlertRules(reaches_live=rules == "live", needs_quantity=not source_rules.accounts_size),
        admission=admission("tv-id", "tv"),
        credentials=(Credential(secret_digest(SECRET if auth == "body" else TOKEN)),),
    )
    config = CONFIG.format(more="", account=account)
    async with (
        desk(tmp_path, config, clock=clock) as open_desk,
        opened(open_desk.store, clock, tv=access) as door,
    ):
        for number, (own, template, size, side) in enumerate(COMBINATIONS):
            if own != rules:
                continue
            text = message(choice_of(template, size, side), source_rules).replace(SECRET_HERE, SECRET)
            # A symbol of its own for each, so that no two of them are one signal.
            body = fill_in(text, clock.now(), {"ticker": f"SAMPLE{number}"}).text.encode()
            path = HOOK if auth == "path" else "/hook/tv"
            first = await post(door, body, path)
            assert (first.status, first.json["status"]) == (200, "accepted"), (template, first.json)
            assert "warnings" not in first.json, first.json
            again = await post(door, body, path)
            assert (again.status, again.json["status"]) == (200, "duplicate"), template
