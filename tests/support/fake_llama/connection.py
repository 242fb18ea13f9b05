"""HTTP/1.1 over one socket, as far as a client of llama-server needs it."""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    501: "Not Implemented",
    503: "Service Unavailable",
}
#: What `garbage` answers.
CUT_JSON = b'{"choices":[{"finish_reason":null,"index":0,"delta":{"content":'
_HEAD_LIMIT = 64 * 1024
_KEEP_ALIVE_S = 5.0
# The engine advertises a connection as alive even where it closes it: see `start_stream`.
_KEEP_ALIVE = "Keep-Alive: timeout=5, max=100"


class ClientGoneError(Exception):
    """The client has closed its end."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked."""

    method: str
    path: str
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes


class Connection:
    """Reads requests from a client and writes answers to it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = b""
        self.is_open = True

    def read_request(self) -> Request | None:
        """The next request; None once the client is done or has been silent for long."""
        self._socket.settimeout(_KEEP_ALIVE_S)
        try:
            while b"\r\n\r\n" not in self._buffer:
                self._receive()
                if len(self._buffer) > _HEAD_LIMIT:
                    return None
            head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (s.partition(":") for s in lines)}
            if headers.get("expect", "").lower() == "100-continue":
                self._socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            length = int(headers.get("content-length", 0))
            while len(self._buffer) < length:
                self._receive()
        except (ClientGoneError, OSError):
            return None
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        method, target, _ = first.split(" ", 2)
        self._socket.settimeout(None)
        return Request(method, target.partition("?")[0], headers, body)

    def send(self, status: int, body: bytes, *, cut_at: int | None = None) -> None:
        """A whole answer, or its head and only a part of its body."""
        self.is_open = status < 400 and cut_at is None
        last = _KEEP_ALIVE if status < 400 else "Connection: close"
        kind = "Content-Type: application/json; charset=utf-8"
        head = self._head(status, kind, f"Content-Length: {len(body)}", last)
        self._send(head + body[:cut_at])

    def start_stream(self) -> None:
        """After a streamed answer the engine closes, whatever it has promised in this head."""
        self.is_open = False
        self._send(
            self._head(
                200,
                "X-Accel-Buffering: no",
                "Content-Type: text/event-stream",
                "Transfer-Encoding: chunked",
                _KEEP_ALIVE,
            )
        )

    def stream(self, data: bytes) -> None:
        payload = b"data: " + data + b"\n\n"
        self._send(b"%x\r\n%b\r\n" % (len(payload), payload))

    def end_stream(self) -> None:
        self._send(b"0\r\n\r\n")

    def wait(self, seconds: float | None) -> None:
        """Waits; None waits for the client to leave.

        Raises:
            ClientGoneError: The client has closed its end meanwhile.
        """
        end_s = None if seconds is None else time.monotonic() + seconds
        readable, _, _ = select.select([self._socket], [], [], seconds)
        if not readable:
            return
        if not self._socket.recv(1, socket.MSG_PEEK):
            raise ClientGoneError
        if end_s is not None:  # the next request is there already
            time.sleep(max(0.0, end_s - time.monotonic()))

    def close(self) -> None:
        self._socket.close()

    def _head(self, status: int, *headers: str) -> bytes:
        lines = [
            f"HTTP/1.1 {status} {_REASONS[status]}",
            "Server: llama.cpp",
            "Access-Control-Allow-Origin: ",
            *headers,
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def _receive(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise ClientGoneError
        self._buffer += data

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ClientGoneError from error
