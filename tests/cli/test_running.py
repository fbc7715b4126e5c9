"""Commands against the real program: found over its control channel and its door, answered by it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.kit import refused, run
from tests.crash.program import ROOT, Program, alert, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the control channel of Windows is a pipe")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with Program(tmp_path_factory.mktemp("running") / "home") as running:
        running.start()
        yield running
        running.end()


def test_status_is_the_running_apps_own_word(program: Program) -> None:
    (found,) = run("status", "--home", program.home, "--json").objects
    assert (found["state"], found["port"], found["trading_state"]) == ("running", program.port, "active")
    facts = {fact["name"]: fact["level"] for fact in found["facts"]}
    names = ("listener", "tunnel", "ledger", "account:paper", "clock", "trading", "loop")
    assert facts == dict.fromkeys(names, "ok")
    assert found["loop_lag_max_ms"] >= 0
    text = run("status", "--home", program.home)
    assert f"port {program.port}" in text.lines[0]
    assert any(line.startswith("account:paper") and "ready" in line for line in text.lines)


def test_url_has_the_port_that_is_open(program: Program) -> None:
    done = run("url", "tradingview", "--home", program.home)
    assert f"http://127.0.0.1:{program.port}/hook/tradingview/" in done.out


def test_send_posts_to_the_test_source_and_the_repeat_is_a_duplicate(
    program: Program, tmp_path: Path
) -> None:
    done = run("send", "-", "--repeat", "2", "--home", program.home, stdin=json.dumps(alert("sent")))
    assert done.code == 0
    assert [(line[:3], json.loads(line[4:])["status"]) for line in done.lines] == [
        ("200", "accepted"),
        ("200", "duplicate"),
    ]
    file = tmp_path / "alert.json"
    file.write_text(json.dumps(alert("from a file")))
    (found,) = run("send", file, "--home", program.home, "--json").objects
    assert (found["http_status"], found["answer"]["status"]) == (200, "accepted")
    orders = program.settled_orders(2)
    shown = run("orders", "--home", program.home, "--json").objects
    assert [row["id"] for row in shown][: len(orders)] == [row["id"] for row in reversed(orders)]
    sources = {row["source"] for row in run("signals", "--home", program.home, "--json").objects}
    assert sources == {"test"}


def test_send_of_what_the_door_refuses_is_exit_1(program: Program) -> None:
    done = run("send", "-", "--home", program.home, stdin='{"action": "buy"}')
    assert done.code == 1
    assert done.out.startswith('400 {"status": "invalid"')
    assert run("send", "/nowhere/alert.json", "--home", program.home).code == 2


def test_the_samples_that_are_shipped_can_be_sent_and_each_sending_is_another_signal(
    program: Program,
) -> None:
    for name in ("sample-alert.json", "sample-alert.json", "tradingview-message.json"):
        done = run("send", ROOT / "resources" / name, "--home", program.home)
        assert done.code == 0, done
        assert done.out.startswith('200 {"status": "accepted"')
        assert "filled in as TradingView would: " in done.err
    twice = run("send", ROOT / "resources" / "sample-alert.json", "--repeat", "2", "--home", program.home)
    assert [json.loads(line[4:])["status"] for line in twice.lines] == ["accepted", "duplicate"]


def test_a_label_for_a_key_is_said_in_the_answer_the_list_and_the_story(program: Program) -> None:
    done = run("send", "-", "--home", program.home, stdin=json.dumps({**alert("x"), "key": "my-first-alert"}))
    answer = json.loads(done.out[4:])
    assert any("label" in sentence for sentence in answer["warnings"])
    assert "label" in run("deliveries", "--home", program.home, "--limit", "1").out
    assert "warning: " in run("show", answer["signal"], "--home", program.home).out


def test_the_story_says_from_what_to_what_an_order_moved(program: Program) -> None:
    done = run("send", "-", "--home", program.home, stdin=json.dumps(alert("moves")))
    answer = json.loads(done.out[4:])
    program.settled_orders(1)
    told = run("show", answer["signal"], "--home", program.home).out
    assert " PENDING -> SUBMITTING" in told


def test_who_was_turned_away_is_counted_where_a_person_looks(tmp_path: Path) -> None:
    with Program(tmp_path / "home") as other:
        other.start()
        assert other.post(alert("lost"), source="nobody").status == 404
        until(lambda: other.status()["counts"].get("turned_away") == 1, "the count")
        shown = run("status", "--home", other.home)
        assert "1 with a wrong token or an unknown source" in shown.out
        assert run("doctor", "--home", other.home).code == 1
        other.end()


def test_h26_halt_and_resume_reach_the_app_once_each(program: Program) -> None:
    (first,) = run("halt", "--home", program.home, "--json", "--request-id", "h-1").objects
    assert program.status()["trading_state"] == "halted"
    (again,) = run("halt", "--home", program.home, "--json", "--request-id", "h-1").objects
    assert first == again
    assert run("resume", "--home", program.home).lines == ["trading is active (was halted)"]
    assert program.status()["trading_state"] == "active"
    halts = [
        event
        for event in run("events", "--home", program.home, "--json").objects
        if event["what"] == "trading state set" and '"to":"halted"' in event["detail"]
    ]
    assert len(halts) == 1
    assert "already used" in refused(run("resume", "--home", program.home, "--request-id", "h-1"))


def test_reconcile_prints_its_report(program: Program) -> None:
    done = run("reconcile", "--home", program.home)
    assert done.code == 0
    assert done.lines[0].startswith("paper: OK")
    (found,) = run("reconcile", "paper", "--home", program.home, "--json").objects
    assert [report["result"] for report in found["reports"]] == ["OK"]
    assert "no account" in refused(run("reconcile", "nobody", "--home", program.home))


def test_doctor_of_a_running_app_is_content(program: Program) -> None:
    done = run("doctor", "--home", program.home)
    assert done.code == 0, done


def test_serve_imports_no_qt(tmp_path: Path) -> None:
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(sorted({'PySide6', 'shiboken6', 'qasync'} & sys.modules.keys())))\n"
        "from app.cli import main\nmain(sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", "--home", str(tmp_path / "home"), "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("onefill ready http://127.0.0.1:")
    process.terminate()
    rest, _ = process.communicate(timeout=40)
    assert rest == "onefill stopped (SIGTERM)\n[]\n"
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform == "darwin", reason="there is always a display")
def test_without_a_display_it_says_so_and_goes_on_without_a_window(tmp_path: Path) -> None:
    names = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    environ = {name: value for name, value in os.environ.items() if name not in names}
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text("[listener]\nport = 0\n")
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "app", "--home", str(home)],
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("onefill ready http://127.0.0.1:")
    process.terminate()
    process.communicate(timeout=40)
    assert process.returncode == 0
    assert "there is no display: going on without a window" in (tmp_path / "errors").read_text()


def test_a_stop_that_hangs_is_forced(tmp_path: Path) -> None:
    """The hard deadline behind the stop, in a process of its own: it ends the process."""
    code = (
        "import threading\nfrom app.cli.run import force_after\nforce_after(0.1)\n"
        "threading.Thread(target=threading.Event().wait).start()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=40, check=False
    )
    assert done.returncode == 3
    assert "was forced" in done.stderr
