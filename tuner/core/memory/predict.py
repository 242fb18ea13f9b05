"""Predicts what a launch needs of each device, from the model's header and what launches have taught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.memory.activations import feed_forward_length
from tuner.core.memory.compute import compute_mib, is_pipelined, unpacked_bytes
from tuner.core.memory.host import host_compute_bytes, on_host
from tuner.core.memory.learned import Learned
from tuner.core.memory.need import DeviceNeed, Prediction
from tuner.core.memory.oracle import Scale
from tuner.core.memory.placement import MIB, cache_bytes, place
from tuner.core.memory.query import MemoryQuery, query_of
from tuner.core.memory.runtime import Situation, backend_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.assignment.splits import Splits
    from tuner.core.memory.placement import Placement
    from tuner.core.model import ModelFile
    from tuner.core.options import Value
    from tuner.core.rig import Device

#: How far off the formulas are, as a fraction of what they say.
_COMPUTE_ERROR, _DRAFT_COMPUTE_ERROR, _CACHE_ERROR, _PROJECTOR_ERROR = 0.04, 0.1, 0.002, 0.25
#: What an allocator rounds up, MiB.
_ROUNDING_MIB = 8.0
#: Embeddings of a token, in 32-bit elements, that a MTP context holds at one of its peaks. Build 11434 on CUDA,
#: 8,192 to 229,376 cells, f16 and q8_0: the formula below is within 2 % of the engine's own lines.
_MTP_EMBEDDINGS = 13


class Predictor:
    """Knows a model on a rig.

    Args:
        splits: The model and how it is cut.
        devices: The rig's, in the engine's order.
        draft: Splits of a draft model of its own; None where there is none.
        projector_mib: Size of a multimodal projector; 0 where there is none.
        projector_device: The device that has it; the first of a launch if None.
        learned: What is known of the rig's memory.
        scale: What the engine's own tool makes of the arithmetic for this model.
    """

    def __init__(
        self,
        splits: Splits,
        devices: tuple[Device, ...],
        *,
        draft: Splits | None = None,
        projector_mib: float = 0.0,
        projector_device: str | None = None,
        learned: Learned | None = None,
        scale: Scale | None = None,
    ) -> None:
        self.scale = scale or Scale()
        self._worked_out: dict[MemoryQuery, _WorkedOut] = {}
        self.learned = learned or Learned()
        self._splits = splits
        self._devices = {device.name: device for device in devices}
        self._names = tuple(self._devices)
        self._draft = draft
        self._projector_mib = projector_mib
        self._projector_device = projector_device

    def with_learned(self, learned: Learned) -> Predictor:
        """The same with other knowledge of the rig."""
        return self._changed(learned=learned)

    def with_scale(self, scale: Scale) -> Predictor:
        """The same with other factors for this model."""
        return self._changed(scale=scale)

    def _changed(self, *, learned: Learned | None = None, scale: Scale | None = None) -> Predictor:
        changed = Predictor(
            self._splits,
            tuple(self._devices.values()),
            draft=self._draft,
            projector_mib=self._projector_mib,
            projector_device=self._projector_device,
            learned=learned or self.learned,
            scale=scale or self.scale,
        )
        changed._worked_out = self._worked_out
        return changed

    def query(self, options: Mapping[str, Value]) -> MemoryQuery:
        """What of some options decides memory."""
        return query_of(options, self._names)

    def split_of(self, query: MemoryQuery) -> tuple[int, ...]:
        """The split that the engine uses: the one given, else by free memory, or even in tensor mode."""
        if any(query.split):
            return query.split
        if query.mode == "tensor" or not query.devices:
            return (1,) * query.n_devices
        free = tuple(self._devices[name].free_mib if name in self._devices else 1 for name in query.devices)
        return tuple(max(one, 1) for one in free)

    def predict(self, options: Mapping[str, Value]) -> Prediction:
        """What a launch with these options needs."""
        return self.predict_query(self.query(options))

    def predict_query(self, query: MemoryQuery) -> Prediction:
        """As `predict`."""
        if not query.devices:
            return Prediction(MappingProxyType({}), (), self._model.weights_bytes / MIB, "tuner")
        if query not in self._worked_out:
            self._worked_out[query] = self._work_out(query)
        placed, compute, drafts, host_compute = self._worked_out[query]
        needs = {
            name: self._need(query, at, placed, compute=compute[at], draft=drafts[at])
            for at, name in enumerate(query.devices)
        }
        host = placed.host_weights + placed.host_cache
        return Prediction(MappingProxyType(needs), placed.owners, host, "tuner", host_compute)

    def _work_out(self, query: MemoryQuery) -> _WorkedOut:
        slicer = self._splits.slicer(query.n_devices)
        placed = place(self._model, query, slicer, self.split_of(query))
        on_cuda = tuple(name.startswith("CUDA") for name in query.devices)
        held = on_host(slicer, query.overrides, placed.owners.count(None))
        compute = compute_mib(self._model, query, placed, held, on_cuda=on_cuda)
        pipelined = is_pipelined(self._model, query, placed)
        host = host_compute_bytes(self._model, query, held, pipelined=pipelined) / MIB
        return placed, compute, self._drafts(query, placed), host

    def situation(self, query: MemoryQuery, device: str) -> Situation:
        """What a device's unnamed memory depends on in a launch."""
        known = self._devices.get(device)
        backend = backend_of(device)
        cuda = sum(name.startswith("CUDA") for name in query.devices)
        return Situation(
            backend=backend,
            mode=query.mode,
            drafts=any(kind.startswith("draft-") for kind in query.spec),
            nccl=query.mode == "tensor" and backend == "CUDA" and cuda > 1 and query.nccl,
            stated=known is not None and known.stated,
        )

    @property
    def _model(self) -> ModelFile:
        return self._splits.model

    def _need(
        self, query: MemoryQuery, at: int, placed: Placement, *, compute: float, draft: _Drafts
    ) -> DeviceNeed:
        name = query.devices[at]
        known = self._devices.get(name)
        belief = self.learned.belief("" if known is None else known.identity, self.situation(query, name))
        projector = self._projector_mib if name == (self._projector_device or query.devices[0]) else 0.0
        cache = placed.kv[at] + placed.recurrent[at]
        sigma = sqrt(
            belief.sigma**2
            + (_COMPUTE_ERROR * compute) ** 2
            + (_DRAFT_COMPUTE_ERROR * draft.compute) ** 2
            + (_CACHE_ERROR * (cache + draft.held)) ** 2
            + (_PROJECTOR_ERROR * projector) ** 2
            + _ROUNDING_MIB**2
        )
        return DeviceNeed(
            weights=placed.weights[at] * self.scale.weights,
            kv=placed.kv[at] * self.scale.cache,
            recurrent=placed.recurrent[at] * self.scale.cache,
            compute=compute * self.scale.compute,
            draft=draft.held + draft.compute,
            projector=projector,
            runtime=belief.mean,
            sigma=sigma,
        )

    def _drafts(self, query: MemoryQuery, placed: Placement) -> tuple[_Drafts, ...]:
        """What drafts take of each device beside the weights of MTP layers."""
        drafts = [_Drafts()] * query.n_devices
        if "draft-mtp" in query.spec and self._model.n_mtp_layers:
            drafts = self._mtp(query, placed)
        if self._draft is not None and any(
            kind.startswith("draft-") and kind != "draft-mtp" for kind in query.spec
        ):
            own = self._own_draft(query, self._draft)
            drafts = [one.plus(more) for one, more in zip(drafts, own, strict=True)]
        return tuple(drafts)

    def _mtp(self, query: MemoryQuery, placed: Placement) -> list[_Drafts]:
        """The MTP layers' cache and the second context's compute buffer."""
        model, n = self._model, query.n_devices
        slicer = self._splits.slicer(n)
        caches = [0.0] * n
        cells = query.cells * query.streams
        for layer in range(model.n_trunk, model.n_layers):
            keys, values = cache_bytes(model, layer, cells, query.draft_type_k, query.draft_type_v)
            if query.mode == "tensor":
                for cut, size in ((slicer.of_keys(layer), keys), (slicer.of_values(layer), values)):
                    for at, share in enumerate(cut.shares(self.split_of(query), n)):
                        caches[at] += size * share / max(cut.elements, 1)
            elif (owner := placed.owners[layer]) is not None:
                caches[owner] += keys + values
        everywhere = query.mode == "tensor"
        owner = None if everywhere else placed.owners[model.n_layers - 1]
        buffers = [
            self._mtp_buffer_mib(query, on_cuda=name.startswith("CUDA")) if everywhere or at == owner else 0.0
            for at, name in enumerate(query.devices)
        ]
        return [_Drafts(cache / MIB, buffer) for cache, buffer in zip(caches, buffers, strict=True)]

    def _mtp_buffer_mib(self, query: MemoryQuery, *, on_cuda: bool) -> float:
        """The second context's compute buffer: its graph has two peaks, and a pipeline holds both at once."""
        model = self._model
        tokens = query.tokens
        embeddings, activations = 4 * _MTP_EMBEDDINGS * model.n_embd, 8 * feed_forward_length(model)
        if query.pipelined:
            per_token = 8 * query.cells + embeddings + activations
        else:
            per_token = max(2 * query.cells + activations, embeddings)
        unpacked = 0.0
        if on_cuda:
            unpacked = unpacked_bytes(
                model,
                range(model.n_trunk, model.n_layers),
                query.cells,
                query.draft_type_k,
                query.draft_type_v,
            )
        if unpacked and query.pipelined:
            unpacked -= 16 * model.n_embd * tokens  # it takes the place of what has been given back
        return (tokens * per_token + max(unpacked, 0.0)) / MIB

    def _own_draft(self, query: MemoryQuery, draft: Splits) -> list[_Drafts]:
        """A draft model of its own: weights, cache for the whole context, and a compute buffer."""
        chosen = query.draft_device
        devices = (chosen,) if chosen is not None and chosen in query.devices else query.devices
        alone = len(devices) == 1
        own = replace(
            query,
            devices=devices,
            mode="none" if alone else query.mode,
            split=() if alone else query.split,
            gpu_layers=999 if query.draft_gpu_layers is None else query.draft_gpu_layers,
            type_k=query.draft_type_k,
            type_v=query.draft_type_v,
            spec=(),
            draft_depth=0,
            overrides=(),
        )
        drafts = [_Drafts()] * query.n_devices
        if own.gpu_layers <= 0:
            return drafts
        predictor = Predictor(draft, tuple(self._devices.values()), learned=self.learned)
        for name, need in predictor.predict_query(own).devices.items():
            drafts[query.devices.index(name)] = _Drafts(need.weights + need.kv + need.recurrent, need.compute)
        return drafts


@dataclass(frozen=True, slots=True)
class _Drafts:
    """MiB that drafts take of a device."""

    held: float = 0.0
    """Weights and caches, which are known exactly."""
    compute: float = 0.0

    def plus(self, other: _Drafts) -> _Drafts:
        """Both together."""
        return _Drafts(self.held + other.held, self.compute + other.compute)


_WorkedOut = tuple["Placement", tuple[float, ...], tuple[_Drafts, ...], float]
"""What of a query does not depend on what is learned: placement, compute buffers, drafts, the host's buffer."""
