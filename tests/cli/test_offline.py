"""Commands with no app running: what works on config, secrets and ledger alone, and what refuses."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from tests.cli.kit import refused, run
from tests.engine.kit import make_engine


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home that was started once and stopped."""

    async def once() -> None:
        engine = make_engine(tmp_path / "home")
        await engine.start()
        await engine.stop()

    asyncio.run(once())
    return tmp_path / "home"


def test_url_prints_every_address_with_its_token(home: Path) -> None:
    done = run("url", "--home", home)
    lines = [line.split(" ") for line in done.lines]
    assert [line[0] for line in lines] == ["tradingview", "test"]
    for source, local, public in lines:
        assert local.startswith(f"http://127.0.0.1:8787/hook/{source}/")
        assert len(local.rpartition("/")[2]) >= 32
        assert public == "-"
    assert run("url", "test", "--home", home).lines == [" ".join(lines[1])]
    (found,) = run("url", "test", "--home", home, "--json").objects
    assert found == {"source": "test", "local": lines[1][1], "public": None}


def test_url_of_nobody_and_of_a_home_that_was_never_started(home: Path, tmp_path: Path) -> None:
    assert "no source 'nobody'" in refused(run("url", "nobody", "--home", home))
    assert "start Onefill first" in refused(run("url", "--home", tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    config = home / "config.toml"
    config.write_text(config.read_text().replace("port = 8787", "port = 0"))
    assert "port = 0" in refused(run("url", "--home", home))


def test_a_wrong_config_is_one_line_with_its_place(home: Path) -> None:
    (home / "config.toml").write_text("[listener]\nport = 'x'\n")
    for command in ("url", "send -"):
        assert "config.toml:2" in refused(run(*command.split(), "--home", home))


def test_send_needs_a_running_app(home: Path) -> None:
    assert "no app is running" in refused(run("send", "-", "--home", home, stdin="{}"))


def test_halt_and_resume_work_on_the_ledger(home: Path) -> None:
    done = run("halt", "--exits-only", "--home", home)
    assert (done.code, done.lines) == (0, ["trading is exits only (was active)"])
    (found,) = run("halt", "--home", home, "--json", "--request-id", "again").objects
    assert (found["trading_state"], found["was"]) == ("halted", "exits_only")
    assert run("halt", "--home", home, "--json", "--request-id", "again").objects == [found]
    assert "already used" in refused(run("resume", "--home", home, "--request-id", "again"))
    assert run("resume", "--home", home).lines == ["trading is active (was halted)"]
    (status,) = run("status", "--home", home, "--json").objects
    assert status["trading_state"] == "active"
    actors = [event["actor"] for event in run("events", "--home", home, "--json").objects]
    assert sum(actor.startswith("command:") for actor in actors) == 3


def test_halt_of_a_home_without_a_ledger_makes_none(tmp_path: Path) -> None:
    assert "no ledger" in refused(run("halt", "--home", tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_selftest_passes_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = run("selftest", "--json")
    assert done.code == 0, done
    assert [(found["check"], found["ok"]) for found in done.objects] == [
        ("door", True),
        ("accepted", True),
        ("duplicate", True),
        ("order", True),
        ("exchange", True),
    ]
    assert list(tmp_path.iterdir()) == []


def test_selftest_fails_when_the_order_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.selftest._at_the_exchange", lambda _: (False, "2 orders"))
    done = run("selftest")
    assert done.code == 1
    assert "FAIL  exchange   2 orders" in done.lines
    assert done.err == "onefill: the self-test failed\n"


def _levels(home: Path) -> tuple[int, dict[str, str]]:
    done = run("doctor", "--home", home, "--json")
    levels: dict[str, str] = {}
    for found in done.objects:
        if found["level"] != "ok" or found["check"] not in levels:
            levels[found["check"]] = found["level"]
    return done.code, levels


def test_doctor_is_content_with_a_sound_home_and_with_a_new_one(home: Path, tmp_path: Path) -> None:
    config = home / "config.toml"
    config.write_text(config.read_text().replace("port = 8787", "port = 0"))
    assert _levels(home) == (
        0,
        dict.fromkeys(
            (
                *("home", "disk", "app", "config", "keyring", "secrets", "port", "ledger", "backup"),
                *("orders", "accounts", "clock", "tunnel", "login", "signal"),
            ),
            "ok",
        ),
    )
    assert run("doctor", "--home", tmp_path / "new").code == 0
    assert not (tmp_path / "new").exists()


def test_doctor_names_what_is_wrong(home: Path) -> None:
    config = home / "config.toml"
    config.write_text(config.read_text().replace("port = 8787", "port = 0"))
    home.chmod(0o755)
    run("halt", "--home", home)
    code, levels = _levels(home)
    assert code == 1
    assert (levels["home"], levels["orders"]) == ("warning", "warning")
    assert stat.S_IMODE(home.stat().st_mode) == 0o755
    (home / "config.toml").write_text("[nonsense]\n")
    (home / "ledger.sqlite3").unlink()
    code, levels = _levels(home)
    assert code == 2
    assert (levels["config"], levels["ledger"]) == ("error", "error")


def test_a_damaged_ledger_is_one_line_of_doctor_and_no_traceback(home: Path) -> None:
    ledger = home / "ledger.sqlite3"
    content = bytearray(ledger.read_bytes())
    content[4096 : len(content)] = b"\xff" * (len(content) - 4096)
    ledger.write_bytes(content)
    done = run("doctor", "--home", home, "--json")
    assert done.code == 2
    (found,) = [each for each in done.objects if each["check"] == "ledger"]
    assert found["level"] == "error"
    assert "restore a backup" in found["seen"]
    assert {"orders", "accounts", "clock"}.isdisjoint(each["check"] for each in done.objects)


def test_a_ledger_that_was_lost_is_told_from_one_that_never_was(home: Path) -> None:
    (home / "ledger.sqlite3").unlink()
    for command in ("status", "orders"):
        problem = refused(run(command, "--home", home))
        assert "is missing" in problem
        assert "onefill restore FILE" in problem
