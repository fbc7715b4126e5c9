"""A real HTTP service that takes notices, in a mood: it answers, refuses, hangs or drips."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Service:
    """On a thread of its own. `came` are the messages as they arrived; `mood` may change at any time."""

    def __init__(self) -> None:
        self.mood = "well"
        self.came: list[dict[str, Any]] = []
        self.tries = 0
        self.released = threading.Event()
        self._arrived = threading.Condition()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service._note(None)
                if service.mood == "hang":
                    service.released.wait(30)
                status = 500 if service.mood == "refuse" else 401 if service.mood == "stranger" else 200
                if status == 200:
                    service._note(json.loads(body))
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", "2")
                    self.end_headers()
                    self.wfile.write(b"ok")
                except OSError:
                    return

            def log_message(self, *_: object) -> None:
                """Not into the test's output."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def url(self, secret: str = "s3cr3t-path") -> str:
        return f"json://127.0.0.1:{self.port}/{secret}"

    def _note(self, message: dict[str, Any] | None) -> None:
        with self._arrived:
            if message is None:
                self.tries += 1
            else:
                self.came.append(message)
            self._arrived.notify_all()

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def text(self) -> str:
        return "\n".join(f"{message['title']}\n{message['message']}" for message in self.came)


@contextmanager
def service() -> Iterator[Service]:
    made = Service()
    try:
        yield made
    finally:
        made.close()
