"""Played rigs for tests: those of tests/rigs, and one small document that a test may change."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from tuner.simulate.launcher import SimulatedRig
from tuner.simulate.rig_file import parse_rig, read_rig

RIGS = Path(__file__).parents[1] / "rigs"


def rig_names() -> list[str]:
    """All rigs of tests/rigs."""
    return sorted(path.stem for path in RIGS.glob("*.toml"))


@lru_cache(maxsize=32)
def simulated(name: str) -> SimulatedRig:
    """A rig of tests/rigs; its launches are counted over all tests."""
    return SimulatedRig(read_rig(RIGS / f"{name}.toml"))


def document(**tables: dict[str, Any]) -> dict[str, Any]:
    """A pair of 1 TB/s and 0.5 TB/s with a hybrid model of 8 layers of 1,000 MiB; tables add to or replace keys."""
    plain: dict[str, Any] = {
        "build": 11_434,
        "device": [
            {"name": "CUDA0", "mem_mib": 16_000, "free_mib": 15_000, "bw": 1e12, "flops": 6e13},
            {"name": "CUDA1", "mem_mib": 16_000, "free_mib": 15_000, "bw": 0.5e12, "flops": 3e13},
        ],
        "link": {"reduce_us": 40, "hop_us": 100, "internal": 1.5, "p2p": 0.5},
        "host": {"bw": 5e10},
        "model": {
            "layers": 8,
            "mtp_layers": 1,
            "full_attn_layers": 2,
            "kv_heads": 4,
            "head_dim": 128,
            "layers_mib": 8000,
            "output_mib": 500,
            "attn_part": 0.3,
            "ctx_train": 65_536,
            "rs_mib": 60,
            "mtp_mib": 1000,
            "compute_scale": 0.5,
            "load_s": 4.0,
            "overhead_ms": 0.5,
            "verify": 0.1,
            "draft_ms": 2.0,
            "flops_tok": 1.6e10,
            "accept": {"default": [0.8, 0.6, 0.4, 0.2], "code": [0.9, 0.8, 0.7, 0.6]},
        },
        "workload": {"ctx": 8192, "classes": ["code", "prose"]},
    }
    for name, table in tables.items():
        plain[name] = {**plain.get(name, {}), **table}
    return plain


def small(**tables: dict[str, Any]) -> SimulatedRig:
    """The rig of such a document."""
    return SimulatedRig(parse_rig("small", document(**tables)))
