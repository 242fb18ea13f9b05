"""Puts the fake together: arguments, rule, load, service, shutdown."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from tests.support.fake_llama.arguments import ArgumentReader, Arguments, RefusedError
from tests.support.fake_llama.builds import BUILDS
from tests.support.fake_llama.caching import read_caching
from tests.support.fake_llama.chat import Chat
from tests.support.fake_llama.completion import Completer
from tests.support.fake_llama.events import Events
from tests.support.fake_llama.loading import Loader
from tests.support.fake_llama.log import Log
from tests.support.fake_llama.memory_failures import MemoryFailures
from tests.support.fake_llama.options import parse_help
from tests.support.fake_llama.plan import Device, Plan, make_devices
from tests.support.fake_llama.process import LIFETIME_S, Clock, Process
from tests.support.fake_llama.raw_completion import RawCompletion
from tests.support.fake_llama.rules import Behaviour, RuleError, behaviour, read_rules
from tests.support.fake_llama.server import Server
from tests.support.fake_llama.service import Parts
from tests.support.fake_llama.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from tests.support.fake_llama.builds import Build
    from tests.support.fake_llama.options import Option

_DEVICES = [
    ("CUDA0", "NVIDIA GeForce RTX 5080", 16303, 15900),
    ("CUDA1", "NVIDIA GeForce RTX 3090", 24576, 24100),
]
#: A rule that makes no sense ends the fake with a code that no server has.
RULE_ERROR_CODE = 70
_UNACCOUNTED_MIB = 622
_OPEN_TO_ALL = (
    "srv  llama_server: security: no API key is set and CORS allows all origins "
    "(see https://github.com/ggml-org/llama.cpp/pull/25655)"
)


def main(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Does what llama-server would do with this command line, and what the rules say beyond it."""
    signal.alarm(LIFETIME_S)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    events = Events(environment.get("FAKE_EVENTS"))
    events.add("start", argv=list(argv), environment=sorted(environment))
    build = BUILDS[environment.get("FAKE_HELP", "11434")]
    machine = make_devices(json.loads(environment.get("FAKE_DEVICES", json.dumps(_DEVICES))))
    engine_log = Log()
    table = parse_help(build.help_text())
    reader = ArgumentReader(
        table,
        [device.name for device in machine],
        at_once=lambda option: _answer_at_once(option, build, machine),
        log=engine_log,
    )
    try:
        arguments = reader.read(argv, environment)
        if arguments.get("help"):
            sys.stdout.write(build.help_text())
            sys.exit(0)
        told = behaviour(read_rules(environment.get("FAKE_RULES")), arguments, events)
    except RefusedError as error:
        sys.stderr.write(str(error))
        Process(Behaviour(), engine_log, events).exit(1)
    except RuleError as error:
        sys.stderr.write(f"fake llama-server: {error}\n")
        sys.exit(RULE_ERROR_CODE)
    engine_log.configure(arguments)
    _run(arguments, told, build, machine, engine_log=engine_log, events=events, environment=environment)


def _answer_at_once(option: Option, build: Build, machine: Sequence[Device]) -> None:
    if option.name == "version":
        sys.stderr.write(build.version_text)
        sys.exit(0)
    if option.name == "list-devices":
        lines = [f"{device.name}: {device.line}" for device in machine] or ["(none)"]
        sys.stdout.write("Available devices:\n" + "".join(f"  {line}\n" for line in lines))
        sys.exit(0)


def _run(
    arguments: Arguments,
    told: Behaviour,
    build: Build,
    machine: tuple[Device, ...],
    *,
    engine_log: Log,
    events: Events,
    environment: Mapping[str, str],
) -> NoReturn:
    if told.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if told.signal in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(told.signal, signal.SIG_DFL)  # Python ignores these two
    process = Process(told, engine_log, events)
    clock = Clock(float(environment.get("FAKE_TIME_SCALE", "0")))
    plan = Plan(arguments, told, build, machine)
    failures = MemoryFailures(told.oom, plan, machine, engine_log, process)
    slots = Slots(plan.slot_count, read_caching(arguments, plan, told))
    reasons = environment.get("FAKE_REASONING", "0") not in ("", "0")
    completer = Completer(plan, told, first_token_counts=build.first_token_counts, reasons=reasons)
    parts = Parts(plan, told, build, slots, completer, failures, engine_log, process, clock, events)
    chat, raw = Chat(parts), RawCompletion(parts)
    server = Server(arguments, plan, told, build, chat=chat, raw=raw, slots=slots, log=engine_log)
    _greet(arguments, machine, engine_log)
    if not server.bind():
        port = arguments.integer("port", 8080)
        engine_log.error(
            f"srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: {port}"
        )
        engine_log.info("srv    operator(): operator(): cleaning up before exit...")
        engine_log.error("srv  llama_server: exiting due to HTTP server error")
        process.exit(1)
    server.start()
    loader = Loader(arguments, plan, told, failures=failures, log=engine_log, process=process, clock=clock)
    if plan.is_router:
        engine_log.info(
            "srv  llama_server: starting server in router mode. models will be automatically loaded on-demand"
        )
    else:
        loader.run()
        engine_log.info("srv  llama_server: model loaded")
    stop = _catch_signals(process, told)
    server.ready.set()
    engine_log.info(f"srv  llama_server: {build.listening} http://127.0.0.1:{server.port}")
    stop.wait()
    engine_log.info("srv    operator(): operator(): cleaning up before exit...")
    server.wait_until_idle()
    if not plan.is_router:
        _break_down(plan, loader, engine_log)
    process.exit(0)


def _greet(arguments: Arguments, machine: Sequence[Device], engine_log: Log) -> None:
    engine_log.info("srv  llama_server: initializing ...")
    head = "cmn  common_param:"
    engine_log.trace(f"{head} common_params_print_info: build 0 (unknown) with GNU 12.2.0 for Linux x86_64")
    verbosity = f"verbosity = {engine_log.verbosity} (adjust with the `-lv N` CLI arg)"
    engine_log.info(f"{head} common_params_print_info: {verbosity}")
    engine_log.trace(f"{head} device_info:")
    for device in machine:
        engine_log.trace(f"{head}   - {device.name:<8}: {device.line}")
    if arguments.get("api-key") is None:
        engine_log.warn(_OPEN_TO_ALL)


def _catch_signals(process: Process, told: Behaviour) -> threading.Event:
    """From the end of the load on: the first signal asks, the second insists."""
    stop = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os.write(2, b"Received second interrupt, terminating immediately.\n")
            process.exit(1)
        stop.set()

    signal.signal(signal.SIGINT, handle)
    if not told.ignore_sigterm:
        signal.signal(signal.SIGTERM, handle)
    return stop


def _break_down(plan: Plan, loader: Loader, engine_log: Log) -> None:
    head = "common_memory_breakdown_print: |"
    engine_log.trace(
        f"{head} memory breakdown [MiB] |  total     free     self   model   context   compute    "
        "unaccounted |"
    )
    if plan.split_mode == "tensor":
        total = sum(device.total_mib for device in plan.devices)
        rows = [("Meta() (Meta())", total)]
    else:
        rows = [(f"{device.name} ({device.description})", device.total_mib) for device in plan.devices]
    weights, contexts = loader.buffers(plan.weights_mib), loader.buffers(plan.kv_mib)
    for (name, total), (_, model), (_, context) in zip(rows, weights, contexts, strict=False):
        own = round(model) + round(context) + round(plan.compute_mib)
        free = total - own - _UNACCOUNTED_MIB
        engine_log.trace(
            f"{head}   - {name} | {total:6} = {free:6} + ({own:5} = {model:5.0f} + {context:7.0f} + "
            f"{plan.compute_mib:7.0f}) + {_UNACCOUNTED_MIB:11} |"
        )
