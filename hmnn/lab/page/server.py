"""The page on this machine only: a few fixed names, and the new lines of a run that goes on."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from hmnn import _check
from hmnn.lab.page.writing import INDEX

HOST, PROGRESS, PIECE = "127.0.0.1", "progress", 1 << 20
TYPES = {".html": "html", ".js": "javascript", ".css": "css"}
ALWAYS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class Site(NamedTuple):
    """What is served."""

    files: Callable[[], dict[str, bytes]]
    """The files of the page as of now; nothing else can be asked for by name."""
    progress: list[Path]
    """The progress files of runs, served as progress/0, progress/1 .."""
    ended: Callable[[int], bool]
    """Whether the run of that number has its record."""


class Answer(NamedTuple):
    """What a request gets."""

    status: int
    headers: dict[str, str]
    body: bytes


@contextmanager
def served(site: Site, port: int = 0) -> Iterator[str]:
    """Serve until the block ends, and give the address; port 0 takes a free one."""
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(site))
    except (OSError, OverflowError):
        raise _check.fail("--port", f"free on {HOST}", port) from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="hmnn report", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answer(site: Site, target: str) -> Answer:
    """The answer to a request for a path."""
    parts = urlsplit(target)
    head, _, number = parts.path.lstrip("/").partition("/")
    if head == PROGRESS and number.isdecimal() and int(number) < len(site.progress):
        return _progress(site, int(number), parse_qs(parts.query).get("offset", ["0"])[0])
    name = parts.path.lstrip("/") or INDEX
    content = site.files().get(name)
    if content is None:
        return Answer(404, _text(), b"There is no such page.\n")
    return Answer(200, _text(TYPES[Path(name).suffix]), content)


def _text(kind: str = "plain") -> dict[str, str]:
    return {"Content-Type": f"text/{kind}; charset=utf-8"}


def _progress(site: Site, number: int, asked: str) -> Answer:
    """The whole lines of a progress file from an offset on; from its start if it is shorter now."""
    ended = site.ended(number)  # before the file is read, so that no line is missed
    start, lines = 0, b""
    with suppress(FileNotFoundError), site.progress[number].open("rb") as file:
        size = file.seek(0, 2)
        start = int(asked) if asked.isdecimal() and int(asked) <= size else 0
        file.seek(start)
        lines = file.read(PIECE)
    lines = lines[: lines.rfind(b"\n") + 1]
    told = {"Hmnn-Offset": str(start), "Hmnn-Record": "yes" if ended else "no"}
    return Answer(200, _text() | told, lines)


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # a page that follows a run keeps its connection
        server_version, sys_version = "hmnn", ""
        timeout = 60

        def do_GET(self) -> None:
            found = self._answer()
            size = {"Content-Length": str(len(found.body))}
            self.send_response(found.status)
            for name, value in (ALWAYS | found.headers | size).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(found.body)

        do_HEAD = do_GET  # noqa: N815

        def _answer(self) -> Answer:
            port = self.connection.getsockname()[1]
            ours = f"{HOST}:{port}", f"localhost:{port}"
            if self.headers.get("Host") not in ours:  # DNS rebinding
                return Answer(421, _text(), b"This page is served to this machine only.\n")
            try:
                return answer(site, self.path)
            except (ValueError, OSError) as error:  # such as a record that is not one
                return Answer(500, _text(), f"{error}\n".encode())

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
