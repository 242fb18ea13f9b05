"""Loads a model: the log of a real load, and the places where it goes wrong."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.fake_llama.plan import LAYERS, TRAINED_CONTEXT

if TYPE_CHECKING:
    from tests.support.fake_llama.arguments import Arguments
    from tests.support.fake_llama.log import Log
    from tests.support.fake_llama.memory_failures import MemoryFailures
    from tests.support.fake_llama.plan import Plan
    from tests.support.fake_llama.process import Clock, Process
    from tests.support.fake_llama.rules import Behaviour

_QUANTISED = ("q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_TALK_EVERY_S = 0.05
_INPUT_SHARE = 0.05
"""Of the weights: the input embedding, which stays on the host."""


class Loader:
    """Runs through a load step by step; returns when the model would be ready."""

    def __init__(
        self,
        arguments: Arguments,
        plan: Plan,
        behaviour: Behaviour,
        *,
        failures: MemoryFailures,
        log: Log,
        process: Process,
        clock: Clock,
    ) -> None:
        self._arguments = arguments
        self._plan = plan
        self._behaviour = behaviour
        self._failures = failures
        self._log = log
        self._process = process
        self._clock = clock

    def run(self) -> None:
        self._log.info(f"srv    load_model: loading model '{self._plan.model}'")
        self._log.trace(f"srv    load_model: local path '{self._plan.model}'")
        self._open(self._plan.model)
        self._devices()
        self._weights()
        self._process.die_if_told("load")
        self._context()
        self._draft()
        self._warm_up()
        self._slots()

    def _open(self, path: str) -> None:
        if reason := _unreadable(path):
            self._log.error(reason)
            self._log.error(
                f"llama_model_load: error loading model: llama_model_loader: failed to load model from {path}"
            )
            self._failures.model_failure()
        self._log.trace(
            "llama_model_loader: loaded meta data with 33 key-value pairs and 291 tensors from "
            f"{path} (version GGUF V3 (latest))"
        )

    def _devices(self) -> None:
        plan, engine_log = self._plan, self._log
        if plan.split_mode == "row" and plan.devices:
            name = plan.devices[0].name
            engine_log.error(
                f"llama_model_load: error loading model: device {name} does not support split buffers"
            )
            self._failures.model_failure()
        if plan.split_mode == "tensor":
            if not plan.devices:
                engine_log.error("llama_prepare_model_devices: LLAMA_SPLIT_MODE_TENSOR needs >= 1 devices")
                self._failures.model_failure()
            head = "llama_prepare_model_devices:"
            count = len(plan.devices)
            engine_log.trace(f"{head} creating a Meta device for tensor parallelism from {count} devices:")
            for index, device in enumerate(plan.devices):
                engine_log.trace(f"{head} - device {index}: {device.name} ({device.description})")
            free = sum(device.free_mib for device in plan.devices)
            engine_log.trace(f"{head} using device Meta() (Meta()) (unknown id) - {free} MiB free")
            return
        for index, device in enumerate(plan.devices):
            engine_log.trace(
                f"llama_prepare_model_devices: using device {device.name} ({device.description}) "
                f"(0000:{index + 1:02x}:00.0) - {device.free_mib} MiB free"
            )

    def _weights(self) -> None:
        plan, engine_log = self._plan, self._log
        engine_log.trace(f"print_info: n_ctx_train           = {TRAINED_CONTEXT}")
        engine_log.trace(f"print_info: n_layer               = {LAYERS}")
        engine_log.trace("load_tensors: loading model tensors, this can take a while... (load_mode = mmap)")
        self._log.flood(self._behaviour.log_flood_mib)
        if self._behaviour.hang == "load":
            threading.Event().wait()
        while self._behaviour.hang == "load-talking":
            engine_log.info("load_tensors: still loading")
            time.sleep(_TALK_EVERY_S)
        self._failures.weights()
        engine_log.trace("load_tensors: offloading output layer to GPU")
        engine_log.trace(f"load_tensors: offloading {LAYERS} repeating layers to GPU")
        engine_log.trace(f"load_tensors: offloaded {plan.offloaded}/{LAYERS + 1} layers to GPU")
        on_host = plan.weights_mib * _INPUT_SHARE
        engine_log.trace(f"load_tensors:   CPU_Mapped model buffer size = {on_host:8.2f} MiB")
        for name, mib in self.buffers(plan.weights_mib - on_host):
            engine_log.trace(f"load_tensors: {name:>12} model buffer size = {mib:8.2f} MiB")
        self._clock.sleep(self._behaviour.load_s)

    def _context(self) -> None:
        plan, engine_log = self._plan, self._log
        flash_attention = self._arguments.text("flash-attn", "auto")
        if flash_attention == "off" and plan.split_mode == "tensor":
            words = "SPLIT_MODE_TENSOR requires flash_attn to be enabled"
            self._failures.context_failure(words, wrapped=False)
        if flash_attention == "off" and self._arguments.text("cache-type-v", "f16") in _QUANTISED:
            words = "quantized V cache requires flash_attn to be enabled"
            self._failures.context_failure(words, wrapped=False)
        engine_log.trace("llama_context: constructing llama_context")
        engine_log.trace(f"llama_context: n_seq_max             = {plan.slot_count}")
        engine_log.trace(f"llama_context: n_ctx                 = {plan.n_ctx_total}")
        engine_log.trace(f"llama_context: n_ctx_seq             = {plan.n_ctx_slot}")
        engine_log.trace(
            f"llama_context: n_batch               = {self._arguments.text('batch-size', '2048')}"
        )
        engine_log.trace(
            f"llama_context: n_ubatch              = {self._arguments.text('ubatch-size', '512')}"
        )
        engine_log.trace("llama_context: flash_attn            = enabled")
        engine_log.trace(f"llama_context: kv_unified            = {str(plan.unified).lower()}")
        engine_log.trace("llama_context:  CUDA_Host  output buffer size =     0.95 MiB")
        self._failures.kv()
        for name, mib in self.buffers(plan.kv_mib):
            engine_log.trace(f"llama_kv_cache: {name:>10} KV buffer size = {mib:8.2f} MiB")
        key, value = (self._arguments.text(f"cache-type-{half}", "f16") for half in "kv")
        half_mib = plan.kv_mib / 2
        engine_log.trace(
            f"llama_kv_cache: size = {plan.kv_mib:7.2f} MiB ({plan.n_ctx_total:6} cells, {LAYERS:3} layers, "
            f" {plan.slot_count}/1 seqs), K ({key}): {half_mib:7.2f} MiB, V ({value}): {half_mib:7.2f} MiB"
        )
        if plan.pipelined:
            engine_log.trace("llama_context: pipeline parallelism enabled")
        engine_log.trace("sched_reserve: reserving ...")
        self._failures.compute()
        for name, _ in self.buffers(1.0):
            engine_log.trace(f"sched_reserve: {name:>10} compute buffer size = {plan.compute_mib:8.2f} MiB")
        engine_log.trace("sched_reserve:  CUDA_Host compute buffer size =    48.02 MiB")
        splits = len(plan.devices) + 1
        engine_log.trace(f"sched_reserve: graph: nodes = 1030, splits = {splits}, input objects = 4")

    def _draft(self) -> None:
        plan, engine_log = self._plan, self._log
        if "draft-mtp" in plan.spec_types:
            engine_log.info(
                "common_speculative_init_result: creating MTP draft context against the target model "
                f"'{plan.model}'"
            )
        if plan.draft_model is not None:
            engine_log.info(f"common_speculative_init_result: loading draft model '{plan.draft_model}'")
            if reason := _unreadable(plan.draft_model):
                engine_log.error(reason)
                self._failures.draft_model_failure()
        self._failures.draft()

    def _warm_up(self) -> None:
        self._log.info("cmn          init: llama threadpool init, n_threads = 2")
        self._failures.first_decode()
        self._process.die_if_told("warmup")

    def _slots(self) -> None:
        plan, engine_log = self._plan, self._log
        unified = str(plan.unified).lower()
        engine_log.info(
            f"srv    load_model: initializing, n_slots = {plan.slot_count}, n_ctx_slot = {plan.n_ctx_slot}, "
            f"kv_unified = '{unified}'"
        )
        context = "srv    load_model: failed to initialize speculative decoding context"
        rates = plan.synthetic_rates
        if plan.spec_failure is not None:
            engine_log.error(f"{context}: {plan.spec_failure}")
        elif rates and plan.speculates and len(rates) != plan.draft_depth:
            words = f"synthetic acceptance rates must contain {plan.draft_depth} values, got {len(rates)}"
            self._failures.load_failure(f"failed to initialize speculative decoding context: {words}")
        elif plan.speculates:
            for kind in plan.spec_types:
                engine_log.trace(f"spec common_specu: adding speculative implementation '{kind}'")
            engine_log.trace("srv    load_model: speculative decoding context initialized")
        else:
            engine_log.trace("spec common_specu: no implementations specified for speculative decoding")
        if rates and not plan.speculates:
            words = "synthetic acceptance requires an initialized speculative decoding context"
            self._failures.load_failure(words)
        for slot in range(plan.slot_count):
            engine_log.trace(f"slot   load_model: id  {slot} | task -1 | new slot, n_ctx = {plan.n_ctx_slot}")
        for line in () if self._behaviour.dies else self._behaviour.log:
            engine_log.warn(line)

    def buffers(self, total_mib: float) -> list[tuple[str, float]]:
        """What goes where: by share, or in tensor mode one device that shows the largest part."""
        plan = self._plan
        if plan.split_mode == "tensor":
            return [("Meta()", total_mib * max(plan.shares))]
        named = zip(plan.devices, plan.shares, strict=True)
        return [(device.name, total_mib * share) for device, share in named] or [("CPU", total_mib)]


def _unreadable(path: str) -> str | None:
    try:
        with Path(path).open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        return f"gguf_init_from_file: failed to open GGUF file '{path}' ({error.strerror})"
    return None if magic == b"GGUF" else "gguf_init_from_reader: failed to read magic"
