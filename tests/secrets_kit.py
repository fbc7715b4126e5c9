"""What the tests of secrets share: a keyring that is none of the machine's, and a secrets.toml."""

from pathlib import Path

from keyring.errors import PasswordDeleteError

VALUE = "s3cr3t-value-that-is-nobodys-business"
NAME = "account.alpaca.secret_key"
TOKEN = "source.tradingview.token"


class FakeKeyring:
    """A keyring that works; `error` makes it fail, `forgets` makes it keep nothing and say nothing."""

    priority = 5

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}
        self.error: Exception | None = None
        self.forgets = False
        self.calls = 0

    def _call(self) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error

    def get_password(self, service: str, username: str, /) -> str | None:
        self._call()
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str, /) -> None:
        self._call()
        if not self.forgets:
            self.entries[service, username] = password

    def delete_password(self, service: str, username: str, /) -> None:
        self._call()
        if (service, username) not in self.entries:
            raise PasswordDeleteError("no such entry")
        del self.entries[service, username]


def put_file(home: Path, text: str, mode: int = 0o600) -> Path:
    path = home / "secrets.toml"
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path
