"""What is behind which path: the order of the checks, and that nothing else is there."""

from __future__ import annotations

import pytest

from app.clock import SECOND, ManualClock
from app.listener.auth import Credential, secret_digest
from tests.listener.kit import (
    BODY_HOOK,
    HOOK,
    TOKEN,
    FakeStore,
    alert,
    ask,
    opened,
    own_source,
    post,
    request,
    source,
    wire,
)

NOT_FOUND = {"status": "not_found", "reason": "not_found"}


@pytest.mark.parametrize("path", [HOOK, HOOK + "/", HOOK + "?from=tv", HOOK + "/?a=b"])
async def test_with_or_without_one_slash_at_the_end_and_with_a_query(path: str) -> None:
    store = FakeStore()
    async with opened(store) as door:
        assert (await post(door, alert(), path)).status == 200
    assert len(store.claimed) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/hook",
        "/hook/",
        "/hook//",
        "/hook/tv",
        "/hook/tv/",
        "/hook/tv//",
        f"/hook/tv/{TOKEN}//",
        f"//hook/tv/{TOKEN}",
        f"/hook//tv/{TOKEN}",
        f"/hook/tv/{TOKEN}/more",
        f"/hook/tv/{TOKEN[:-1]}",
        f"/hook/tv/{TOKEN}x",
        f"/hook/tv/{TOKEN.upper()}",
        f"/hook/TV/{TOKEN}",
        f"/hook/own/{TOKEN}",
        f"/hook/tv/%74{TOKEN[1:]}",
        f"/hook/t%76/{TOKEN}",
        f"/%68ook/tv/{TOKEN}",
        f"/hook%2Ftv%2F{TOKEN}",
        f"/hook/tv/{TOKEN}%00",
        f"/hook/x/../tv/{TOKEN}",
        f"/hook/./tv/{TOKEN}",
        f"/healthz/../hook/tv/{TOKEN}",
        f"http://127.0.0.1/hook/tv/{TOKEN}",
        f"/hook/tv/{TOKEN};a=b",
        f"/hook/tv/{TOKEN}#x",
        "/hook/tv/\udce9\udcff",
        "/hook/é/é",
        "/hook/.../...",
        "/healthz/",
        "/metrics",
        "/favicon.ico",
        "/.env",
    ],
)
async def test_everything_else_is_404_and_never_a_redirect(path: str) -> None:
    store = FakeStore()
    async with opened(store) as door:
        response = await ask(door, request(path, alert()))
    assert (response.status, response.json) == (404, NOT_FOUND)
    assert "location" not in response.headers
    assert not store.claimed + store.refused + store.posted
    assert len(store.unauthenticated) == 1
    assert store.unauthenticated[0] in ("path", "source_or_token", "malformed")


async def test_other_forms_of_a_target_are_404() -> None:
    async with opened(FakeStore()) as door:
        for line in (b"OPTIONS * HTTP/1.1", b"CONNECT tv:443 HTTP/1.1", b"POST tv HTTP/1.1"):
            response = await ask(door, line + b"\r\nHost: a\r\n\r\n")
            assert (response.status, response.json) == (404, NOT_FOUND)


async def test_an_unknown_source_and_a_wrong_token_answer_alike() -> None:
    async with opened(FakeStore()) as door:
        wrong = await post(door, alert(), "/hook/tv/wrong")
        unknown = await post(door, alert(), "/hook/nobody/wrong")
        disabled_name = await post(door, alert(), "/hook/tv")
        elsewhere = await post(door, alert(), "/elsewhere")
    for other in (unknown, disabled_name, elsewhere):
        assert other.content == wrong.content
        assert set(other.headers) == set(wrong.headers)
        assert {k: v for k, v in other.headers.items() if k != "date"} == {
            k: v for k, v in wrong.headers.items() if k != "date"
        }


async def test_a_disabled_source_answers_as_if_it_were_not_there() -> None:
    async with opened(FakeStore(), tv=source(enabled=False)) as door:
        response = await post(door, alert())
        door.set_sources({"own": own_source(enabled=False)})
        other = await post(door, alert(), BODY_HOOK)
    assert response.status == other.status == 404
    assert response.content == other.content


async def test_a_rotated_token_is_valid_until_its_end_and_others_can_be_set_at_once() -> None:
    clock = ManualClock()
    old = Credential(secret_digest("old-token"), expires_at=clock.now() + SECOND)
    new = Credential(secret_digest("new-token"))
    async with opened(FakeStore(), clock, tv=source(credentials=(new, old))) as door:
        assert (await post(door, alert(), "/hook/tv/old-token")).status == 200
        assert (await post(door, alert(), "/hook/tv/new-token")).status == 200
        clock.advance(SECOND)
        assert (await post(door, alert(), "/hook/tv/old-token")).status == 404
        assert (await post(door, alert(), "/hook/tv/new-token")).status == 200
        door.set_sources({"tv": source()})
        assert (await post(door, alert(), "/hook/tv/new-token")).status == 404
        assert (await post(door, alert())).status == 200


async def test_a_source_without_credentials_does_not_open() -> None:
    with pytest.raises(ValueError, match="source tv has no token"):
        async with opened(FakeStore(), tv=source(credentials=())):
            pass


async def test_it_opens_on_loopback_addresses_only() -> None:
    for host in ("0.0.0.0", "192.168.1.10", "localhost", "::", ""):
        with pytest.raises(ValueError, match="loopback"):
            async with opened(FakeStore(), host=host):
                pass


@pytest.mark.parametrize(
    "header", ["Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"]
)
@pytest.mark.parametrize("path", [HOOK, "/healthz"])
async def test_h43_a_browser_is_never_a_sender(header: str, path: str) -> None:
    store = FakeStore()
    async with opened(store) as door:
        method = "GET" if path == "/healthz" else "POST"
        response = await ask(door, request(path, alert() if method == "POST" else b"", method, (header,)))
    assert (response.status, response.json) == (404, NOT_FOUND)
    assert (store.claimed, store.unauthenticated) == ([], ["browser"])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8787", 200),
        ("localhost", 200),
        ("[::1]:8787", 200),
        ("Hooks.Example.org", 200),
        ("hooks.example.org.:443", 200),
        ("evil.example", 404),
        ("127.0.0.1.evil.example", 404),
        ("hooks.example.org.evil.example", 404),
    ],
)
async def test_h43_with_public_hosts_set_no_other_host_is_served(host: str, status: int) -> None:
    async with opened(FakeStore(), public_hosts=["hooks.example.org"]) as door:
        data = request(HOOK, alert()).replace(b"Host: 127.0.0.1", b"Host: " + host.encode())
        assert (await ask(door, data)).status == status


async def test_without_public_hosts_any_host_is_served_since_tunnels_rewrite_it() -> None:
    async with opened(FakeStore()) as door:
        data = request(HOOK, alert()).replace(b"Host: 127.0.0.1", b"Host: anything.example")
        assert (await ask(door, data)).status == 200


async def test_the_health_probe_says_one_word() -> None:
    words = iter(["ok", "degraded", "halted"])
    async with opened(FakeStore(), health=lambda: next(words)) as door:
        for word in ("ok", "degraded", "halted"):
            response = await ask(door, request("/healthz", method="GET"))
            assert (response.status, response.json) == (200, {"status": word})
        for method in ("HEAD", "POST", "OPTIONS", "DELETE"):
            response = await ask(door, request("/healthz", method=method), has_body=method != "HEAD")
            assert response.status == 404


async def test_the_checks_run_in_the_contract_s_order() -> None:
    """Each request is wrong in everything from some check on: the first of them answers."""
    store = FakeStore(error=AssertionError("the claim comes last"))
    both = ("Idempotency-Key: another",)
    encoded = (*both, "Content-Encoding: gzip")
    large = b"{" * 70_000
    async with opened(store) as door:
        for path, method, headers, body, status, word in [
            ("/hooks/tv/wrong", "PUT", encoded, large, 404, "not_found"),
            ("/hook/tv/wrong", "PUT", encoded, large, 405, "method_not_allowed"),
            ("/hook/tv/wrong", "POST", encoded, large, 404, "not_found"),
            (HOOK, "POST", encoded, large, 415, "unsupported_encoding"),
            (HOOK, "POST", both, large, 413, "too_large"),
            (HOOK, "POST", both, b"{", 400, "invalid"),
            (BODY_HOOK, "POST", encoded, large, 415, "unsupported_encoding"),
            (BODY_HOOK, "POST", both, large, 413, "too_large"),
            (BODY_HOOK, "POST", both, b"{", 401, "unauthorized"),
            (BODY_HOOK, "POST", both, b'{"symbol": 5, "secret": "wrong"}', 401, "unauthorized"),
        ]:
            async with wire(door) as line:
                await line.send(request(path, body, method, headers))
                response = await line.response()
            assert (response.status, response.json["status"]) == (status, word), (path, method)
        meaning = await post(door, alert(action="purchase"), HOOK, *both)
        assert (meaning.status, meaning.json["fields"]) == (400, ["action"])
        key = await post(door, alert(), HOOK, *both)
        assert (key.status, key.reason) == (400, "keys_disagree")


async def test_what_failed_authentication_is_counted_by_a_few_words_and_never_kept() -> None:
    store = FakeStore()
    async with opened(store) as door:
        await post(door, b"x" * 70_000, BODY_HOOK)
        await post(door, alert(), BODY_HOOK, "Content-Encoding: br")
        await post(door, alert(secret="wrong"), BODY_HOOK)
        await ask(door, request(HOOK, method="GET"))
        await ask(door, b"rubbish\r\n\r\n")
    assert store.unauthenticated == [
        "body_over_64_kib", "content_encoding", "bad_secret", "method", "malformed",
    ]  # fmt: skip
    assert not store.claimed + store.refused + store.posted + store.answers
