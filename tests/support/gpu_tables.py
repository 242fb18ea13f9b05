"""The tables of docs/gpu/README.md, made from the data files beside it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.core.options import Value

_NUMBER = re.compile(r"\d+\.\d+")
FOLDER = Path(__file__).parents[2] / "docs" / "gpu"


def rows(name: str) -> list[dict[str, Any]]:
    """The lines of a data file."""
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def memory_table() -> str:
    """What was predicted for each launch and card, beside what NVML showed."""
    lines = [
        "| configuration | GPU 0 predicted | NVML | off | GPU 1 predicted | NVML | off |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    trials: dict[int, list[dict[str, Any]]] = {}
    for row in rows("memory.jsonl"):
        trials.setdefault(row["trial"], []).append(row)
    for cards in trials.values():
        cells = [_label(cards[0]["options"])]
        for card in cards:
            off = card["nvml_mib"] - card["predicted_mib"]
            cells += [f"{card['predicted_mib']:,.0f}", f"{card['nvml_mib']:,.0f}", f"{off:+.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def wall_table() -> str:
    """What `tuner check` said of commands that do not fit, beside what came when they were started."""
    lines = ["| flags | `tuner check` said | what came |", "|---|---|---|"]
    for row in rows("walls.jsonl"):
        said, came = row["predicted"], row["came"]
        asked = "" if came["requested_mib"] is None else f", {came['requested_mib']:,.0f} MiB asked for"
        inferred = " (inferred)" if came["inferred"] else ""
        lines.append(
            f"| `{row['flags']}` | {said['stage']} on {said['device']}, {said['over_mib']:,.0f} MiB too much | "
            f"{came['kind']} at {came['stage']} on {came['device']}{asked}{inferred} |"
        )
    return "\n".join(lines)


def _label(options: dict[str, Any]) -> str:
    ratio = ",".join(map(str, options["tensor-split"]))
    parts = [f"{options['split-mode']} {ratio}", options["cache-type-k"], f"ub {options['ubatch-size']}"]
    if options.get("spec-type", "none") != "none":
        parts.append(f"MTP {options['spec-draft-n-max']}")
    if "GGML_CUDA_ALLREDUCE" in options:
        parts.append(options["GGML_CUDA_ALLREDUCE"])
    return ", ".join(parts)


def search_table(name: str) -> str:
    """The trials of a study in their order, from its export."""
    lines = ["| launch | configuration | tok/s | prompt tok/s | accepted |", "|--:|---|--:|--:|--:|"]
    for trial in trials(name):
        measured = bool(trial["generation_tok_s"])
        speed = (
            [f"{float(trial[key]):.1f}" for key in ("generation_tok_s", "prompt_tok_s")] if measured else []
        )
        accepted = f"{float(trial['acceptance']):.0%}" if trial["acceptance"] else ""
        cells = [trial["trial"], trial["configuration"], *(speed or [trial["outcome"], ""]), accepted]
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
    return "\n".join(lines)


def trials(name: str) -> list[dict[str, str]]:
    """A study's trials as `tuner show --csv` wrote them."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def options_of(trial: dict[str, str]) -> dict[str, Value]:
    """What a trial was launched with; nothing for the engine's own choice."""
    found: dict[str, Value] = {}
    for name, text in list(trial.items())[list(trial).index("device") :]:
        if name in {"device", "tensor-split"} and text:
            parts = text.split(",")
            found[name] = tuple(parts) if name == "device" else tuple(map(int, parts))
        elif text:
            found[name] = int(text) if text.isdecimal() else float(text) if _NUMBER.fullmatch(text) else text
    return found


def best(name: str) -> dict[str, Any]:
    """A run's best.json."""
    document: dict[str, Any] = json.loads((FOLDER / f"run-{name}.json").read_text(encoding="utf-8"))
    return document


def proof_table(names: tuple[str, ...]) -> str:
    """What whole runs came to, confirmed; rates are sum over sum on the launches that confirmed them."""
    lines = [
        "| context | the engine's own | winner | tok/s | ratio (95 %) | launches | out of memory | soak |",
        "|--:|--:|---|--:|---|--:|--:|---|",
    ]
    for name in names:
        document, launched = best(name), trials(f"run-{name}.csv")
        winner, (reference,) = document["winner"], document["confirmation"]["references"]
        default = next(row for row in document["references"] if row["name"] == reference["name"])
        low, high = reference["interval"]
        label = next(row["configuration"] for row in launched if int(row["trial"]) == winner["trial"])
        cells = [
            f"{document['soak']['slot_context']:,}",
            f"{default['rates']['generation_tok_s']:.1f}",
            f"`{label}`",
            f"{winner['rates']['generation_tok_s']:.1f}",
            f"{reference['ratio']:.3f} ({low:.3f} to {high:.3f}), {reference['launches_a_side']} launches a side",
            f"{len(launched)}",
            f"{document['study']['trials'].get('out-of-memory', 0)}",
            document["soak"]["sentence"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


#: A configuration of docs/gpu/answers.jsonl: split mode, ratio, reduction, KV type, ubatch and flash attention.
Answering = tuple[str, tuple[int, ...], str, str, int, str]

_NO_LOSS = ("", "", "", "")


def answering(row: dict[str, Any]) -> Answering:
    """What a launch of answers.jsonl had that may change its answers."""
    options = row["options"]
    split = tuple(options["tensor-split"])
    reduction = options.get("GGML_CUDA_ALLREDUCE", "")
    parts = options["cache-type-k"], options["ubatch-size"], options["flash-attn"]
    return options["split-mode"], split, reduction, *parts


def answers(model: int) -> dict[Answering, dict[str, Any]]:
    """The launches with one of the two models, by configuration; `deep` is at how many deep places each was compared.

    Asked first are the places of the first passage, by all launches; then the deep ones, then the next passage.
    """
    every = [row for row in rows("answers.jsonl") if row["model"] == model]
    names = {row["study"]: [place["name"] for place in row["places"]] for row in every if "places" in row}
    launches = {}
    for row in every:
        if "options" in row:
            asked = names[row["study"]][: row["loss"]["positions"]]
            launches[answering(row)] = {**row, "deep": sum(name.startswith("deep/") for name in asked)}
    return launches


def answers_table() -> str:
    """How far each configuration's next tokens are from the plain reference's, on both models."""
    measures = "shallow | deep | same likeliest | alike"
    lines = [
        f"| configuration | first: {measures} | second: {measures} |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    first, second = answers(1), answers(2)
    for one in sorted(first.keys() | second.keys(), key=_as_they_are_told):
        fell_back = any(found[one]["fell_back"] for found in (first, second) if one in found)
        cells = [_answering_label(one) + " (not to be had: internal)" * fell_back]
        for found in (first, second):
            cells += _loss_cells(found[one]) if one in found else _NO_LOSS
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _as_they_are_told(one: Answering) -> tuple[object, ...]:
    mode, split, reduction, kv, ubatch, attention = one
    reductions = ("", "none", "internal", "nccl")
    order = (mode, kv, reductions.index(reduction), attention != "on", ubatch != 512, ubatch)
    return *order, abs(split[0] - split[-1])


def _answering_label(one: Answering) -> str:
    mode, split, reduction, kv, ubatch, attention = one
    parts = [f"{mode} {','.join(map(str, split))}", kv]
    parts += [f"ub {ubatch}"] * (ubatch != 512) + ["fa off"] * (attention == "off")
    parts += [reduction] * bool(reduction)
    return ", ".join(parts)


def _loss_cells(row: dict[str, Any]) -> tuple[str, ...]:
    loss = row["loss"]
    deep = f"{loss['deep_kl_nats']:.3f} ({row['deep']})"
    return f"{loss['kl_nats']:.3f}", deep, f"{loss['top1']:.0%}", f"{row['answers_alike']:.0%}"
