"""How the engine runs out of memory: the lines and the end of each stage, by split mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tests.support.fake_llama.log import Log
    from tests.support.fake_llama.plan import Device, Plan
    from tests.support.fake_llama.process import Process
    from tests.support.fake_llama.rules import Oom

_META = "/src/llama.cpp/ggml/src/ggml-backend-meta.cpp"
_CUDA = "/src/llama.cpp/ggml/src/ggml-cuda/ggml-cuda.cu"
_RETRY_SHARE = 0.35
"""Of the first compute buffer: without pipeline parallelism there are no copies."""


class MemoryFailures:
    """Fails where it was told to; a stage that the command line never reaches does not fail."""

    def __init__(
        self, oom: Oom | None, plan: Plan, machine: tuple[Device, ...], log: Log, process: Process
    ) -> None:
        self._oom = oom
        self._plan = plan
        self._machine = machine
        self._log = log
        self._process = process

    def weights(self) -> None:
        if self._is_due("weights"):
            self._refuse_or_abort("meta_buf_ctx->bufs[i]")
            name = self._device_name()
            self._log.error(f"llama_model_load: error loading model: unable to allocate {name} buffer")
            self.model_failure()

    def kv(self) -> None:
        if self._is_due("kv"):
            self._refuse_or_abort("meta_buf_ctx->bufs[i]")
            self.context_failure("failed to allocate buffer for kv cache")

    def compute(self) -> None:
        """Hard, or soft: the second try without pipeline parallelism works."""
        soft = self._is_due("compute-soft") and self._plan.pipelined
        if not (soft or self._is_due("compute")):
            return
        self._refuse_compute()
        if not soft:
            self.context_failure("failed to allocate compute pp buffers")

    def draft(self) -> None:
        """The draft's own memory: an MTP context or the weights of a draft model."""
        if not self._is_due("draft") or not any(t.startswith("draft-") for t in self._plan.spec_types):
            return
        if self._plan.draft_model is None:
            self._refuse_compute()
            self._log.error(
                "llama_init_from_model: failed to initialize the context: "
                "failed to allocate compute pp buffers"
            )
            self._log.error("common_speculative_init_result: failed to create MTP context")
            self.load_failure("failed to create MTP context")
        self._refuse_or_abort("meta_buf_ctx->bufs[i]")
        name = self._device_name()
        self._log.error(f"llama_model_load: error loading model: unable to allocate {name} buffer")
        self.draft_model_failure()

    def first_decode(self) -> None:
        """NCCL's buffers in tensor mode: no word of memory."""
        if self._is_due("nccl") and self._plan.split_mode == "tensor":
            self._cuda_error(
                "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                "ggml_backend_cuda_comm_allreduce_nccl",
                1029,
                "ncclGroupEnd()",
            )

    def request(self) -> None:
        """The pool that grows with a long prompt."""
        if self._is_due("runtime"):
            call = "cuMemCreate(&handle, reserve_size, &prop, 0)"
            self._cuda_error("out of memory", "alloc", 607, call)

    def model_failure(self) -> NoReturn:
        """The lines after any failure to load the model."""
        model = self._plan.model
        self._log.error("llama_model_load_from_file_impl: failed to load model")
        self._log.error(f"cmn  common_init_: failed to load model '{model}'")
        self.load_failure(f"failed to load model, '{model}'")

    def draft_model_failure(self) -> NoReturn:
        self._log.error("llama_model_load_from_file_impl: failed to load model")
        words = f"failed to load draft model, '{self._plan.draft_model}'"
        self._log.error(f"common_speculative_init_result: {words}")
        self.load_failure(words)

    def context_failure(self, reason: str, *, wrapped: bool = True) -> NoReturn:
        """The lines after any failure to make the context."""
        wrapper = "failed to initialize the context: " if wrapped else ""
        model = self._plan.model
        self._log.error(f"llama_init_from_model: {wrapper}{reason}")
        self._log.error(f"cmn  common_init_: failed to create context with model '{model}'")
        self._log.error(f"cmn  common_init_: failed to create context with model '{model}'")
        self.load_failure(f"failed to create_context with model '{model}'")

    def load_failure(self, words: str) -> NoReturn:
        self._log.error(f"srv    load_model: {words}")
        self._log.info("srv    operator(): operator(): cleaning up before exit...")
        self._log.error("srv  llama_server: exiting due to model loading error")
        self._process.exit(1)

    def _is_due(self, stage: str) -> bool:
        return self._oom is not None and self._oom.stage == stage

    def _device_name(self) -> str:
        assert self._oom is not None
        return self._machine[self._oom.device].name

    def _refuse_or_abort(self, asserted: str) -> None:
        """In tensor mode the assert comes first: two writers, one file."""
        tensor = self._plan.split_mode == "tensor"
        if tensor:
            line = 1771 if asserted.startswith("meta") else 1714
            self._log.raw(f"{_META}:{line}: GGML_ASSERT({asserted}) failed")
        assert self._oom is not None
        self._refuse(self._oom.mib, "ggml_backend_buft_alloc_buffer_n_default")
        if tensor:
            self._process.abort()

    def _refuse_compute(self) -> None:
        assert self._oom is not None
        if self._plan.split_mode == "tensor":
            self._refuse_or_abort("bufs.back() != nullptr")
        self._refuse_graph(self._oom.mib)
        if self._plan.pipelined:
            self._log.warn(
                "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism"
            )
            if self._oom.stage != "compute-soft":
                self._refuse_graph(self._oom.mib * _RETRY_SHARE)

    def _refuse_graph(self, mib: float) -> None:
        self._refuse(mib, "ggml_gallocr_reserve_n_impl")
        self._log.error("graph_reserve: failed to allocate compute buffers")

    def _refuse(self, mib: float, caller: str) -> None:
        assert self._oom is not None
        self._log.error(
            f"ggml_backend_cuda_buffer_type_alloc_buffer: allocating {mib:.2f} MiB on device "
            f"{self._oom.device}: cudaMalloc failed: out of memory"
        )
        size = round(mib * 1024 * 1024)
        self._log.error(f"{caller}: failed to allocate {self._device_name()} buffer of size {size}")

    def _cuda_error(self, reason: str, function: str, line: int, call: str) -> NoReturn:
        assert self._oom is not None
        self._log.raw(f"{_CUDA}:109: CUDA error")
        self._log.error(f"CUDA error: {reason}")
        self._log.error(f"  current device: {self._oom.device}, in function {function} at {_CUDA}:{line}")
        self._log.error(f"  {call}")
        self._process.abort()
