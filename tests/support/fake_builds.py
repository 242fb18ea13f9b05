"""Several builds of the fake engine beside each other, each with rules of its own, and files that they serve."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.fake_engine import FakeEngine
from tests.support.gguf_files import Tensor, model_metadata, write_gguf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: What a model file's weights take.
Q8_BYTES, Q4_BYTES = 16_000, 8000


def build(
    folder: Path,
    name: str,
    rules: Sequence[tuple[Mapping[str, object], Mapping[str, object]]] = (),
    help_of: str = "11434",
) -> Path:
    """A llama-server of that name: the fake, and what it does under which conditions; the first rule counts.

    Args:
        folder: The test's own.
        name: Of its folder.
        rules: Conditions, and what is done then.
        help_of: The build whose help it shows.
    """  # fmt: skip
    path = folder / "builds" / name / "bin" / "llama-server"
    path.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, Any] = {
        "rules": [{"when": dict(when), "do": dict(do)} for when, do in rules],
        "defaults": {"draft_acceptance": 0},
    }
    own = path.with_name("rules.json")
    own.write_text(json.dumps(known), encoding="utf-8")
    lines = (
        "#!/bin/sh",
        f"# {name}",
        f'FAKE_RULES="{own}" FAKE_HELP={help_of} exec "{FakeEngine.path}" "$@"',
    )
    path.write_text("\n".join((*lines, "")), encoding="utf-8")
    path.chmod(0o755)
    return path


def model(
    folder: Path, name: str, size_bytes: int, tokens: Sequence[str] = ("a", "b"), context: int = 32_768
) -> Path:
    """A small model with weights of that size."""
    metadata = model_metadata(context_length=context)
    metadata["tokenizer.ggml.tokens"] = list(tokens)
    own = Tensor("blk.0.attn_q.weight", (size_bytes // 4,), 0, size_bytes)
    tensors = [Tensor("token_embd.weight"), Tensor("output.weight"), own]
    return write_gguf(folder / f"{name}.gguf", metadata, tensors)
