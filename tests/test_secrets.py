"""Secrets: looked up in the contract's order, kept where they are safe, shown nowhere."""

import base64
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from keyring.backend import KeyringBackend
from keyring.backends import chainer, fail, null
from keyring.errors import KeyringLocked

from app.secrets import Secrets, SecretsError, Where, environment_name, token_digest
from tests.secrets_kit import NAME, TOKEN, VALUE, FakeKeyring, put_file

posix = pytest.mark.skipif(os.name != "posix", reason="modes of files")


@pytest.fixture
def keyring() -> FakeKeyring:
    return FakeKeyring()


# ------------------------------------------------------------------------------------------ where it is found


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("source.tradingview.token", "ONEFILL_SECRET_SOURCE_TRADINGVIEW_TOKEN"),
        ("account.alpaca.key_id", "ONEFILL_SECRET_ACCOUNT_ALPACA_KEY_ID"),
        ("account.my-paper.secret_key", "ONEFILL_SECRET_ACCOUNT_MY_PAPER_SECRET_KEY"),
    ],
)
def test_names_in_the_environment(name: str, variable: str) -> None:
    assert environment_name(name) == variable


def test_the_order_is_environment_keyring_file(tmp_path: Path, keyring: FakeKeyring) -> None:
    environ: dict[str, str] = {}
    secrets = Secrets(tmp_path, environ, keyring)
    assert secrets.get(NAME) is None
    assert secrets.find(NAME).where is None
    put_file(tmp_path, f'"{NAME}" = "from file"\n')
    assert (secrets.get(NAME), secrets.find(NAME).where) == ("from file", Where.FILE)
    keyring.set_password(f"onefill {tmp_path.resolve()}", NAME, "from keyring")
    assert (secrets.get(NAME), secrets.find(NAME).where) == ("from keyring", Where.KEYRING)
    environ[environment_name(NAME)] = "from environment"
    assert (secrets.get(NAME), secrets.find(NAME).where) == ("from environment", Where.ENVIRONMENT)


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_an_empty_variable_is_not_a_secret(tmp_path: Path, keyring: FakeKeyring, blank: str) -> None:
    secrets = Secrets(tmp_path, {environment_name(NAME): blank}, keyring)
    secrets.set(NAME, VALUE)
    assert secrets.get(NAME) == VALUE


def test_the_environment_alone_asks_no_keyring_and_no_file(tmp_path: Path, keyring: FakeKeyring) -> None:
    put_file(tmp_path, "not toml", 0o644)
    assert Secrets(tmp_path, {environment_name(NAME): VALUE}, keyring).get(NAME) == VALUE
    assert keyring.calls == 0


def test_two_homes_do_not_share(tmp_path: Path, keyring: FakeKeyring) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = (Secrets(tmp_path / name, {}, keyring) for name in ("one", "two"))
    one.set(NAME, VALUE)
    assert one.get(NAME) == VALUE
    assert two.get(NAME) is None
    assert one.hook_token("a").value != two.hook_token("a").value


@posix
def test_one_home_by_two_paths_is_one(tmp_path: Path, keyring: FakeKeyring) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    Secrets(tmp_path / "home", {}, keyring).set(NAME, VALUE)
    assert Secrets(tmp_path / "link", {}, keyring).get(NAME) == VALUE


@pytest.mark.parametrize(
    "name", ["", "token", "source..token", "Source.a.token", "source.a b.token", "a.b.c.d.e"]
)
def test_a_name_that_is_none(tmp_path: Path, keyring: FakeKeyring, name: str) -> None:
    secrets = Secrets(tmp_path, {}, keyring)
    for call in (secrets.get, secrets.delete, lambda name: secrets.set(name, VALUE)):
        with pytest.raises(SecretsError, match="not a name of a secret"):
            call(name)


# ------------------------------------------------------------------------------------------ where it is kept


def test_kept_in_a_keyring_that_works(tmp_path: Path, keyring: FakeKeyring) -> None:
    secrets = Secrets(tmp_path, {}, keyring)
    stored = secrets.set(NAME, VALUE)
    assert stored.where is Where.KEYRING
    assert "WARNING" not in stored.statement
    assert list(keyring.entries.values()) == [VALUE]
    assert list(tmp_path.iterdir()) == []
    assert secrets.keyring_state.usable


class Plain(FakeKeyring):
    priority = 0.5  # type: ignore[assignment]


class Unviable(FakeKeyring):
    @property
    def priority(self) -> int:  # type: ignore[override]
        raise RuntimeError("no bus")


class Chain(FakeKeyring):
    priority = 10
    backends = (Plain(), Plain())


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: None, "uses no keyring"),
        (fail.Keyring, "this system has no keyring"),
        (null.Keyring, "switched off"),
        (Plain, "does not keep secrets safely"),
        (Chain, "does not keep secrets safely"),
        (Unviable, "no keyring works here: RuntimeError no bus"),
    ],
)
def test_what_is_no_real_keyring_is_named_and_the_file_is_said_out_loud(
    tmp_path: Path, make: Callable[[], FakeKeyring | KeyringBackend | None], reason: str
) -> None:
    secrets = Secrets(tmp_path, {}, make())
    assert not secrets.keyring_state.usable
    assert reason in secrets.keyring_state.reason
    stored = secrets.set(NAME, VALUE)
    assert stored.where is Where.FILE
    assert stored.statement.startswith(f"WARNING: {NAME} is in plain text in {tmp_path / 'secrets.toml'}")
    assert reason in stored.statement
    assert VALUE not in stored.statement
    found = Secrets(tmp_path, {}, None).find(NAME)
    assert (found.value, found.where, found.problem) == (VALUE, Where.FILE, "")


def test_the_systems_keyring_is_looked_for_when_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyring: FakeKeyring
) -> None:
    monkeypatch.setattr("keyring.core.get_keyring", lambda: keyring)
    assert Secrets(tmp_path, {}).set(NAME, VALUE).where is Where.KEYRING

    def broken() -> None:
        raise ModuleNotFoundError("No module named 'keyrings'")

    monkeypatch.setattr("keyring.core.get_keyring", broken)
    state = Secrets(tmp_path, {}).keyring_state
    assert not state.usable
    assert "No module named" in state.reason


def test_a_chain_without_links_is_no_keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chainer.ChainerBackend, "backends", ())
    make: Callable[[], KeyringBackend] = chainer.ChainerBackend
    backend = make()
    assert not Secrets(tmp_path, {}, backend).keyring_state.usable


def test_a_set_that_reaches_the_keyring_leaves_no_copy_in_the_file(
    tmp_path: Path, keyring: FakeKeyring
) -> None:
    path = put_file(tmp_path, f'# mine\n"{NAME}" = "old"\n"a.b.c" = "x"\n')
    Secrets(tmp_path, {}, keyring).set(NAME, VALUE)
    assert path.read_text() == '# mine\n"a.b.c" = "x"\n'


def test_the_environment_that_hides_a_stored_value_is_named(tmp_path: Path, keyring: FakeKeyring) -> None:
    secrets = Secrets(tmp_path, {environment_name(NAME): "other"}, keyring)
    said = f"{environment_name(NAME)} is set and comes before it."
    assert said in secrets.set(NAME, VALUE).statement
    assert said in secrets.delete(NAME).statement


@pytest.mark.parametrize("value", ["", "   ", "two\nlines", "nul\0", "tab\t"])
def test_a_value_that_can_be_none(tmp_path: Path, keyring: FakeKeyring, value: str) -> None:
    with pytest.raises(SecretsError, match="printable"):
        Secrets(tmp_path, {}, keyring).set(NAME, value)
    assert keyring.entries == {}


def test_delete_removes_it_everywhere(tmp_path: Path, keyring: FakeKeyring) -> None:
    secrets = Secrets(tmp_path, {}, keyring)
    secrets.set(NAME, VALUE)
    put_file(tmp_path, f'"{NAME}" = "old"\n')
    assert secrets.delete(NAME).where == (Where.KEYRING, Where.FILE)
    assert secrets.get(NAME) is None
    assert secrets.delete(NAME).where == ()


# --------------------------------------------------------------------------------------- a keyring that fails


@pytest.mark.parametrize(
    "error", [KeyringLocked("locked"), OSError(5, "bus gone"), RuntimeError(), KeyError("x")]
)
def test_a_keyring_that_fails_is_a_reason_and_never_a_crash(
    tmp_path: Path, keyring: FakeKeyring, error: Exception
) -> None:
    secrets = Secrets(tmp_path, {}, keyring)
    keyring.error = error
    found = secrets.find(NAME)
    assert (found.value, found.where) == (None, None)
    assert "failed: " in found.problem
    assert type(error).__name__ in found.problem
    stored = secrets.set(NAME, VALUE)
    assert stored.where is Where.FILE
    assert type(error).__name__ in stored.statement
    assert secrets.get(NAME) == VALUE
    deleted = secrets.delete(NAME)
    assert deleted.where == (Where.FILE,)
    assert "may still be there" in deleted.statement


def test_a_keyring_that_keeps_nothing_is_found_out(tmp_path: Path, keyring: FakeKeyring) -> None:
    keyring.forgets = True
    stored = Secrets(tmp_path, {}, keyring).set(NAME, VALUE)
    assert stored.where is Where.FILE
    assert "did not keep" in stored.statement


def test_a_value_beside_the_keyrings_is_named(tmp_path: Path, keyring: FakeKeyring) -> None:
    """Set while the keyring was locked; after that it is open again and has the old one."""
    secrets = Secrets(tmp_path, {}, keyring)
    secrets.set(NAME, "old")
    keyring.error = KeyringLocked()
    secrets.set(NAME, "new")
    keyring.error = None
    found = secrets.find(NAME)
    assert (found.value, found.where) == ("old", Where.KEYRING)
    assert "with another value" in found.problem
    assert not {"old", "new"} & set(found.problem.split())


def test_no_token_is_made_beside_one_that_a_locked_keyring_may_hold(
    tmp_path: Path, keyring: FakeKeyring
) -> None:
    secrets = Secrets(tmp_path, {}, keyring)
    token = secrets.hook_token("tradingview").value
    keyring.error = KeyringLocked("locked")
    with pytest.raises(SecretsError, match="none is made: unlock the keyring") as caught:
        secrets.hook_token("tradingview")
    assert environment_name(TOKEN) in str(caught.value)
    assert not (tmp_path / "secrets.toml").exists()
    keyring.error = None
    assert secrets.hook_token("tradingview").value == token


def test_a_keyring_that_was_given_up_is_not_asked_again(tmp_path: Path, keyring: FakeKeyring) -> None:
    secrets = Secrets(tmp_path, {}, keyring)
    secrets.give_up_on_keyring("no answer within 5 s")
    assert "no answer within 5 s" in secrets.find(NAME).problem
    assert secrets.set(NAME, VALUE).where is Where.FILE
    assert secrets.get(NAME) == VALUE
    with pytest.raises(SecretsError, match="no answer within 5 s"):
        secrets.hook_token("tradingview")
    assert not secrets.keyring_state.usable
    assert keyring.calls == 0


# -------------------------------------------------------------------------------------------------- tokens


def test_a_hook_token_is_made_once_and_has_at_least_192_bits(tmp_path: Path, keyring: FakeKeyring) -> None:
    secrets = Secrets(tmp_path, {}, keyring)
    first = secrets.hook_token("tradingview")
    assert first.made
    assert first.where is Where.KEYRING
    assert len(base64.urlsafe_b64decode(first.value + "=" * (-len(first.value) % 4))) * 8 >= 192
    again = Secrets(tmp_path, {}, keyring).hook_token("tradingview")
    assert (again.value, again.made, again.statement) == (first.value, False, "")
    assert secrets.get(TOKEN) == first.value
    assert secrets.hook_token("other").value != first.value


def test_a_made_token_that_lands_in_the_file_says_so(tmp_path: Path) -> None:
    token = Secrets(tmp_path, {}, None).hook_token("tradingview")
    assert token.where is Where.FILE
    assert token.statement.startswith("WARNING")
    assert token.value not in token.statement


@pytest.mark.parametrize("bad", ["short", "a" * 31, "a" * 40 + "/", "a" * 40 + "?", "é" * 40, " " + "a" * 40])
def test_a_token_that_can_be_guessed_or_fits_in_no_address_is_refused(
    tmp_path: Path, keyring: FakeKeyring, bad: str
) -> None:
    with pytest.raises(SecretsError, match=f"{TOKEN} must be 32 to 256") as caught:
        Secrets(tmp_path, {environment_name(TOKEN): bad}, keyring).hook_token("tradingview")
    assert bad not in str(caught.value)
    with pytest.raises(SecretsError, match="32 to 256"):
        Secrets(tmp_path, {}, keyring).set(TOKEN, bad)
    assert keyring.entries == {}


def test_a_persons_own_token_is_used(tmp_path: Path, keyring: FakeKeyring) -> None:
    token = Secrets(tmp_path, {environment_name(TOKEN): "a" * 32}, keyring).hook_token("tradingview")
    assert (token.value, token.where, token.made) == ("a" * 32, Where.ENVIRONMENT, False)


def test_the_digest_takes_whatever_a_request_can_hold() -> None:
    assert token_digest("abc") == hashlib.sha256(b"abc").digest()
    assert token_digest("é\ud800\udcff") != token_digest("é")


# ------------------------------------------------------------------------------------------- shown nowhere


def test_no_repr_and_no_error_shows_a_value(tmp_path: Path, keyring: FakeKeyring) -> None:
    environ = {environment_name("account.a.b"): VALUE}
    secrets = Secrets(tmp_path, environ, keyring)
    secrets.set(NAME, VALUE)
    put_file(tmp_path, f'"a.b.c" = "{VALUE}"\n')
    shown = [secrets, *vars(secrets).values(), secrets.keyring_state]
    shown += [secrets.find(NAME), secrets.find("account.a.b"), secrets.find("a.b.c")]
    shown += [secrets.set(NAME, VALUE), secrets.delete(NAME)]
    for thing in shown:
        if thing is not environ:
            assert VALUE not in repr(thing), type(thing)
    token = secrets.hook_token("tradingview")
    assert token.value not in repr(token)


def test_a_backends_error_that_repeats_the_value_is_blanked(tmp_path: Path, keyring: FakeKeyring) -> None:
    keyring.error = ValueError(f"cannot store {'x' * 90} {VALUE}")
    stored = Secrets(tmp_path, {}, keyring).set(NAME, VALUE)
    assert VALUE[:8] not in stored.statement
    assert "cannot store" in stored.statement
