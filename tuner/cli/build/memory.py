"""What predicts memory in a run: the model's header, the engine's own tool, and what the rig has taught."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.memory.learned import Learned
from tuner.core.memory.oracle import scale_of
from tuner.core.memory.placement import MIB
from tuner.core.memory.predict import Predictor
from tuner.engine.fit_params import FitParams
from tuner.engine.fit_proposal import read_proposal
from tuner.rig.memory_facts import MemoryFacts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.assignment.splits import Splits
    from tuner.core.memory.learned import Observation
    from tuner.core.memory.oracle import FitRow, Oracle
    from tuner.core.memory.query import MemoryQuery
    from tuner.core.model import ModelFile
    from tuner.core.options import Value
    from tuner.core.rig import Rig
    from tuner.engine.command_line import UserFlag
    from tuner.engine.probe import Engine
    from tuner.search.coordinates import BoundSpace
    from tuner.search.memory_gate import MemoryGate

_CALIBRATED_AT_TOKENS = 16_384


@dataclass(frozen=True, slots=True)
class MemoryKnowledge:
    """Everything that predicts memory on a rig."""

    predictor: Predictor
    oracle: ForModel | None
    source: str
    """Engine and model, for what is learned."""
    facts: MemoryFacts
    before: tuple[Observation, ...]
    """What was known of the rig beforehand."""


def memory_source(engine: Engine, model: ModelFile) -> str:
    """What an observation was made with."""
    return f"{engine.digest[:12]}/{model.fingerprint[:12]}"


def build_knowledge(
    engine: Engine,
    splits: Splits,
    rig: Rig,
    *,
    draft: Splits | None,
    flags: Sequence[UserFlag],
    environment: Mapping[str, str],
    facts_folder: Path | None,
) -> MemoryKnowledge:
    """Put together what predicts memory; the engine's tool is asked once, for half a second or two.

    Args:
        engine: The engine.
        splits: The model's.
        rig: The devices.
        draft: A draft model's splits; None where there is none.
        flags: The user's own flags: an `--mmproj` and `--rpc` among them.
        environment: The servers'.
        facts_folder: Where what rigs have taught is kept; None for the user's data folder.
    """
    values = {flag.name: flag.value for flag in flags if flag.name is not None and flag.value is not None}
    facts = MemoryFacts(rig.identity, facts_folder)
    source = memory_source(engine, splits.model)
    before = facts.load()
    predictor = Predictor(
        splits,
        rig.devices,
        draft=draft,
        projector_mib=_size_mib(values.get("mmproj")),
        projector_device=values.get("mmproj-device"),
        learned=Learned(before, source),
    )
    tool = FitParams.find(engine, environment)
    oracle = None if tool is None else ForModel(tool, splits.model.path, values.get("rpc"))
    if oracle is not None:
        predictor = _calibrated(predictor, oracle, rig, splits.model)
    return MemoryKnowledge(predictor, oracle, source, facts, before)


@dataclass(frozen=True, slots=True)
class ForModel:
    """The engine's tool, asked about one model."""

    tool: FitParams
    model_path: str
    rpc: str | None

    def propose(self, bound: BoundSpace, gate: MemoryGate) -> dict[str, Value] | None:
        """What the tool would start the model with on these devices; None where it cannot be told."""
        tokens = bound.imposed.get("ctx-size")
        margin_mib = {
            device.name: round(device.free_mib - gate.room_mib[device.name]) for device in gate.devices
        }
        said = self.tool.propose(
            bound.devices,
            tokens if isinstance(tokens, int) else 0,
            margin_mib,
            model_path=self.model_path,
            rpc=self.rpc,
        )
        return None if said is None else read_proposal(said, bound.splits)

    def ask(self, query: MemoryQuery, split: tuple[int, ...]) -> tuple[FitRow, ...] | None:
        """As `FitParams.ask`."""
        return self.tool.ask(query, split, model_path=self.model_path, rpc=self.rpc)


def _calibrated(predictor: Predictor, oracle: Oracle, rig: Rig, model: ModelFile) -> Predictor:
    """Correct the arithmetic for what the tool says of a plain launch of this model."""
    n = len(rig.devices)
    context = min(_CALIBRATED_AT_TOKENS, model.n_ctx_train or _CALIBRATED_AT_TOKENS)
    query = predictor.query(
        {"split-mode": "layer" if n > 1 else "none", "tensor-split": (1,) * n, "ctx-size": context}
    )
    rows = oracle.ask(query, predictor.split_of(query))
    if rows is None:
        return predictor
    return predictor.with_scale(scale_of(predictor.predict_query(query), rows))


def _size_mib(path: str | None) -> float:
    if path is None:
        return 0.0
    try:
        return Path(path).stat().st_size / MIB
    except OSError:
        return 0.0  # the engine will say so
