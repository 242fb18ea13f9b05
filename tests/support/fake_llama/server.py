"""Listens, lets in who has the key, and answers every page but the completions; one thread a connection."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

from tests.support.fake_llama import answers
from tests.support.fake_llama.connection import CUT_JSON, ClientGoneError, Connection
from tests.support.fake_llama.raw_completion import PATHS as RAW_PATHS
from tests.support.fake_llama.requests import BadRequestError, read_tokens
from tests.support.fake_llama.rules import CHAT

if TYPE_CHECKING:
    from tests.support.fake_llama.arguments import Arguments
    from tests.support.fake_llama.builds import Build
    from tests.support.fake_llama.chat import Chat
    from tests.support.fake_llama.connection import Request
    from tests.support.fake_llama.log import Log
    from tests.support.fake_llama.plan import Plan
    from tests.support.fake_llama.raw_completion import RawCompletion
    from tests.support.fake_llama.rules import Behaviour
    from tests.support.fake_llama.slots import Slots

_LOOPBACK = "127.0.0.1"
_HEALTH = ("/health", "/v1/health")


class Server:
    """The HTTP side; answers 503 until `ready` is set."""

    def __init__(
        self,
        arguments: Arguments,
        plan: Plan,
        behaviour: Behaviour,
        build: Build,
        *,
        chat: Chat,
        raw: RawCompletion,
        slots: Slots,
        log: Log,
    ) -> None:
        self._arguments = arguments
        self._plan = plan
        self._behaviour = behaviour
        self._build = build
        self._chat = chat
        self._raw = raw
        self._slots = slots
        self._log = log
        self._keys = [key for key in arguments.text("api-key", "").split(",") if key]
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.ready = threading.Event()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def bind(self) -> bool:
        """Whether the port could be had; never anything but the loopback address."""
        if self._behaviour.port_taken:
            return False
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind((_LOOPBACK, self._arguments.integer("port", 8080)))
        except OSError:
            return False
        self._listener.listen(128)
        return True

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_until_idle(self) -> None:
        """Waits for the clients of running requests: the engine does, without limit."""
        self._slots.wait_until_idle()

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(Connection(sock),), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        try:
            while connection.is_open and (request := connection.read_request()):
                self._answer(connection, request)
        except ClientGoneError:
            self._log.warn("srv          stop: cancel task, id_task = 0")
        finally:
            connection.close()

    def _answer(self, connection: Connection, request: Request) -> None:
        if not self._may(request):
            self._log.warn("srv    operator(): unauthorized: Invalid API Key")
            _refuse(connection, 401, "authentication_error", "Invalid API Key")
        elif not self.ready.is_set():
            _refuse(connection, 503, "unavailable_error", "Loading model")
        elif request.method == "POST" and not self._plan.is_router:
            self._post(connection, request)
        else:
            self._get(connection, request)

    def _post(self, connection: Connection, request: Request) -> None:
        if request.path == CHAT:
            self._chat.serve(connection, request)
        elif request.path in RAW_PATHS:
            self._raw.serve(connection, request)
        elif request.path == "/tokenize" and request.path not in self._behaviour.garbage:
            try:
                tokens = read_tokens(request.body)
            except BadRequestError as error:
                _refuse(connection, 400, error.kind, error.message)
            else:
                connection.send(200, answers.dump({"tokens": tokens}))
        else:
            self._get(connection, request)

    def _may(self, request: Request) -> bool:
        if not self._keys or request.path in _HEALTH:
            return True
        key = request.headers.get("authorization") or request.headers.get("x-api-key", "")
        return key.removeprefix("Bearer ") in self._keys

    def _get(self, connection: Connection, request: Request) -> None:
        path, plan = request.path, self._plan
        if path in self._behaviour.garbage:
            connection.send(200, CUT_JSON)
        elif path in _HEALTH:
            connection.send(200, answers.dump({"status": "ok"}))
        elif path == "/props":
            connection.send(200, answers.dump(answers.props(plan, self._build)))
        elif path in ("/v1/models", "/models"):
            connection.send(200, answers.dump(answers.models(plan)))
        elif path == "/slots" and not self._arguments.is_on("slots", default=True):
            message = "This server does not support slots endpoint. Start it with `--slots`"
            _refuse(connection, 501, "not_supported_error", message)
        elif path == "/slots" and not plan.is_router:
            connection.send(200, answers.dump(self._slots.as_json(plan)))
        elif plan.is_router:
            message = "model name is missing from the request"
            _refuse(connection, 400, "invalid_request_error", message)
        else:
            _refuse(connection, 404, "not_found_error", "File Not Found")


def _refuse(connection: Connection, code: int, kind: str, message: str) -> None:
    connection.send(code, answers.dump(answers.error(code, kind, message)))
