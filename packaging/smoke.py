"""Tries a built program as a user's machine would: `smoke.py PROGRAM [--from-source]`. Standard library only.

It must answer, refuse a duplicate, place one order, survive kill -9 without losing or doubling anything, open
its window (offscreen where there is no display), and stay within its size. With `--from-source` the start is
timed side by side with the work tree's own. One line a check; exit code 0 or 1.
"""

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGEST = 200_000_000
SLOWER = 2.0
"""Seconds that the frozen program may take longer to open its door than the work tree."""
PATIENCE = 60.0
ALERTS = 24
"""Below the limit of orders a minute that a new home has."""


class Failed(Exception):
    """What was seen in place of what must be."""


def main(arguments: "list[str]") -> int:
    parser = argparse.ArgumentParser(description="Tries a built program.")
    parser.add_argument("program", type=Path)
    parser.add_argument(
        "--from-source", action="store_true", help="compare the start with the work tree and its .venv"
    )
    asked = parser.parse_args(arguments)
    program = [str(asked.program.resolve())]
    checks: "list[tuple[str, Callable[[], str]]]" = [
        ("size", lambda: size(asked.program)),
        ("version", lambda: text_of(program, "version")),
        ("selftest", lambda: text_of(program, "selftest").splitlines()[-1]),
        ("signal", lambda: signal_and_duplicate(program)),
        ("notice", lambda: a_notice(program)),
        ("kill -9", lambda: kill_and_resend(program)),
        ("window", lambda: window(program)),
        ("start", lambda: start_time(program, asked.from_source)),
    ]
    passed = True
    for name, check in checks:
        try:
            print(f"ok    {name:<9} {check()}", flush=True)
        except (Failed, OSError, subprocess.SubprocessError, ValueError) as error:
            passed = False
            print(f"FAIL  {name:<9} {error}", flush=True)
    return 0 if passed else 1


# ------------------------------------------------------------------------------------------------- helpers


def text_of(program: "list[str]", *arguments: str) -> str:
    done = subprocess.run(
        [*program, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False, env=bare()
    )
    if done.returncode != 0 or done.stderr:
        raise Failed(f"{arguments} ended with {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout.strip()


def bare(**more: str) -> "dict[str, str]":
    """The environment of a machine that has no Python of ours: nothing that could help the program along."""
    system = ("SYSTEMROOT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "DISPLAY", "XAUTHORITY")
    kept = ("HOME", "PATH", "TMPDIR", "TEMP", "TMP", *system)
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        **more,
    }


@contextmanager
def a_home() -> "Iterator[Path]":
    with tempfile.TemporaryDirectory(prefix="onefill-smoke-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "home"


@contextmanager
def serving(program: "list[str]", home: Path) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """A running `serve`, and the address of its door. Stopped politely at the end if it still runs."""
    errors = (home.parent / "stderr.txt").open("a")
    command = [*program, "serve", "--home", str(home), "--port", "0"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, env=bare()
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("onefill ready http://127.0.0.1:"):
            raise Failed(f"no door: {line!r} {(home.parent / 'stderr.txt').read_text()}")
        yield process, line.split()[2]
        if process.poll() is None:
            process.terminate()
            if process.wait(PATIENCE) != 0 and os.name != "nt":
                raise Failed(f"the stop ended with {process.returncode}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        errors.close()


def hook(program: "list[str]", home: Path, door: str) -> str:
    """The hook address of the source `tradingview` at a door."""
    local = json.loads(text_of(program, "url", "tradingview", "--home", str(home), "--json").splitlines()[0])
    address = str(next(value for key, value in local.items() if "local" in key))
    return door + address[address.index("/hook/") :]


def post(address: str, number: int) -> "dict[str, object]":
    body = {"key": f"smoke-{number}", "symbol": "AAPL", "action": "buy", "quantity": "1", "price": "10"}
    # The program's own address, on this machine: no scheme but http can stand in it.
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
        result = json.load(answer)
    assert isinstance(result, dict)
    return result


def a_notice(program: "list[str]") -> str:
    """By Apprise to a service of our own: it looks for its parts in folders, so a bundle may lack them."""
    came: "list[str]" = []

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with a_home() as home, HTTPServer(("127.0.0.1", 0), Service) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        home.mkdir(mode=0o700)
        (home / "config.toml").write_text('[[notices]]\nname = "smoke"\nto = "url"\n')
        secrets = home / "secrets.toml"
        secrets.write_text(f'"notice.smoke.url" = "json://127.0.0.1:{service.server_address[1]}/x"\n')
        secrets.chmod(0o600)
        try:
            with serving(program, home):
                said = text_of(program, "notice", "test", "--home", str(home))
        finally:
            service.shutdown()
    if said != "smoke: sent" or len(came) != 1 or "a test notice" not in came[0]:
        raise Failed(f"{said!r}, and {came} came")
    return "a test notice came"


def until(seen: "Callable[[], bool]", what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not seen():
        if time.monotonic() > deadline:
            raise Failed(f"{what} did not come within {PATIENCE:.0f} s")
        time.sleep(0.05)


def rows(file: Path, sql: str) -> "list[tuple[object, ...]]":
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


# ------------------------------------------------------------------------------------------------- checks


def size(program: Path) -> str:
    folder = program.parents[2] if ".app" in str(program) else program.parent
    total = sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_symlink())
    if total > LARGEST:
        raise Failed(f"{total / 1e6:.0f} MB, more than {LARGEST / 1e6:.0f}")
    return f"{total / 1e6:.0f} MB"


def signal_and_duplicate(program: "list[str]") -> str:
    with a_home() as home:
        with serving(program, home) as (_, door):
            address = hook(program, home, door)
            words = [str(post(address, 1)["status"]) for _ in range(2)]
            until(
                lambda: rows(home / "paper.sqlite3", "SELECT status FROM orders") == [("Filled",)], "the fill"
            )
            report = text_of(program, "doctor", "--home", str(home)) if os.name != "nt" else ""
        if words != ["accepted", "duplicate"]:
            raise Failed(f"answered {words}")
    return f"{words[0]}, {words[1]}, one order filled; doctor: {len(report.splitlines())} lines"


def kill_and_resend(program: "list[str]") -> str:
    """Kills the program in the middle of a burst and sends all of it again, as TradingView would."""
    answered: "set[int]" = set()
    with a_home() as home:
        with serving(program, home) as (process, door):
            address = hook(program, home, door)
            for number in range(ALERTS):
                if number == ALERTS // 2:
                    process.send_signal(signal.SIGKILL if os.name != "nt" else signal.SIGTERM)
                try:
                    post(address, number)
                    answered.add(number)
                except (urllib.error.URLError, OSError):
                    break
            process.wait(PATIENCE)
        with serving(program, home) as (_, door):
            again = hook(program, home, door)
            words = {number: str(post(again, number)["status"]) for number in range(ALERTS)}
            open_states = "('PENDING', 'SUBMITTING', 'AMBIGUOUS', 'WORKING')"
            ledger = home / "ledger.sqlite3"
            until(
                lambda: rows(ledger, f"SELECT count(*) FROM v_orders WHERE state IN {open_states}") == [(0,)],
                "rest",
            )
        lost = sorted(number for number in answered if words[number] != "duplicate")
        doubled = rows(
            home / "paper.sqlite3", "SELECT client_order_id FROM orders GROUP BY 1 HAVING count(*) > 1"
        )
        placed = len(rows(home / "paper.sqlite3", "SELECT 1 FROM orders"))
        absent = len(rows(ledger, "SELECT 1 FROM v_orders WHERE state = 'NOT_PLACED'"))
        signals = rows(home / "ledger.sqlite3", "SELECT count(*) FROM v_signals")[0][0]
    if lost or doubled or signals != ALERTS or placed + absent != ALERTS:
        counts = f"of {ALERTS}: {signals} signals, {placed} placed, {absent} shown as not placed"
        raise Failed(f"lost {lost}, doubled {doubled}; {counts}")
    return f"{len(answered)} answered before; of {ALERTS} {placed} placed once, {absent} shown as not placed"


def window(program: "list[str]") -> str:
    """Opens the window and waits until its listener answers; then asks it to stop."""
    environment = (
        bare() if os.environ.get("DISPLAY") or sys.platform != "linux" else bare(QT_QPA_PLATFORM="offscreen")
    )
    with a_home() as home:
        process = subprocess.Popen(
            [*program, "--home", str(home)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        try:
            running = [*program, "status", "--home", str(home), "--json"]

            def is_up() -> bool:
                if process.poll() is not None:
                    said = process.stdout.read() if process.stdout else ""
                    raise Failed(f"it ended with {process.returncode}: {said}")
                asked = subprocess.run(
                    running, capture_output=True, timeout=PATIENCE, check=False, env=bare()
                )
                return asked.returncode == 0

            until(is_up, "the window's engine")
            process.terminate()
            said, _ = process.communicate(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if os.name != "nt" and (process.returncode != 0 or "Traceback" in said or "without a window" in said):
        raise Failed(f"it ended with {process.returncode}: {said}")
    return f"opened ({environment.get('QT_QPA_PLATFORM', 'display')}) and closed in order"


def start_time(program: "list[str]", compare: bool) -> str:
    """Seconds to an open door, the best of three; side by side with the work tree where asked."""

    def best(command: "list[str]") -> float:
        times = []
        for _ in range(3):
            with a_home() as home:
                began = time.monotonic()
                with serving(command, home):
                    times.append(time.monotonic() - began)
        return min(times)

    python = ROOT / (".venv/Scripts/python.exe" if os.name == "nt" else ".venv/bin/python")
    if not compare or not python.exists():
        return f"{best(program):.2f} s to the open door"
    ours, theirs = best(program), best([str(python), "-m", "app"])
    if ours > theirs + SLOWER:
        raise Failed(f"{ours:.2f} s to the open door, {theirs:.2f} s from source")
    return f"{ours:.2f} s to the open door, {theirs:.2f} s from source"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
