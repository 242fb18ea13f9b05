"""`tuner tune`: its options."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.build.cells import Server, for_one, split_words
from tuner.cli.build.contexts import contexts_of
from tuner.cli.build.options import TuneOptions
from tuner.cli.notify import Notifier
from tuner.cli.option_values import duration_s, lease_of
from tuner.cli.saying import say
from tuner.cli.space_files import DEFAULT_SPACE
from tuner.cli.storage_options import Storage, StorageFile  # noqa: TC001 - Typer reads them
from tuner.core.objective import Objective  # noqa: TC001 - typer reads the annotations
from tuner.core.workload import Thinking
from tuner.errors import PlatformError, UsageError


class WorkloadKind(StrEnum):
    """What each launch is asked."""

    PROMPTS = "prompts"
    SESSION = "session"


DEFAULT_BUDGET = "8h"
DEFAULT_BLOCKS = 8
DEFAULT_LEASE = "2m"
OFF = "off"


def tune(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL.gguf", help="The model; of several shards, the first.")
    ],
    flags: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MORE.gguf -- FLAGS",
            help="More models, for one table of engine by file; flags of llama-server for every launch and export, "
            "untouched: --rpc, --mmproj, --lora.",
        ),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="The llama-server to tune; default: the one on the PATH. Again for another build or fork. In quotes "
            "with flags for it alone: 'PATH --rpc HOST:PORT'.",
        ),
    ] = None,
    space: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Search space: dual-gpu, quick, long-context, offload, session, p2p, or a file.",
        ),
    ] = DEFAULT_SPACE,
    study: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the study; default: from model and space.")
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where studies are kept.")] = Path("results"),
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help=f"Time for the study, such as 8h or 45m; default {DEFAULT_BUDGET}."
        ),
    ] = None,
    launches: Annotated[
        int | None, typer.Option(metavar="N", help="Launches of the search, references included.")
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="N[,N...,max]",
            help="Tokens of context, such as 32k; default 16384 or the model's limit. Several, and max: the best for "
            "each, and what more context costs.",
        ),
    ] = None,
    devices: Annotated[
        str | None, typer.Option(metavar="LIST", help="Devices to use and their order, such as CUDA0,CUDA1.")
    ] = None,
    device_memory: Annotated[
        str | None,
        typer.Option(metavar="DEV=MIB,...", help="Memory of devices whose size the engine cannot see."),
    ] = None,
    reserve: Annotated[
        str | None,
        typer.Option(metavar="DEV=MIB,...", help="MiB to keep free on a device, such as 0=2048,1=256."),
    ] = None,
    current: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help='Your own command, measured first: "llama-server -ts 2,3 ...".'),
    ] = None,
    sampling: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Samplers, such as temp=0.6,top-k=20; default: --current's, the model's."
        ),
    ] = None,
    thinking: Annotated[
        Thinking, typer.Option(help="Whether a reasoning model is told to think.")
    ] = Thinking.AUTO,
    prompts: Annotated[
        str,
        typer.Option(
            metavar="NAME|PATH",
            help="Prompt set: default, short, a JSONL file of messages, a chat export, a folder of texts.",
        ),
    ] = "default",
    sample: Annotated[
        int | None,
        typer.Option(metavar="N", help="Draw N prompts of the set by --seed, short and long in its mix."),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Requests a launch: the first N prompts; default: 5, or all of --sample."
        ),
    ] = None,
    offload: Annotated[
        bool,
        typer.Option(
            "--offload",
            help="Search what lies in host memory too, even if the model fits on the devices; if it does not, that "
            "is searched anyway.",
        ),
    ] = False,
    keep_text: Annotated[
        bool,
        typer.Option("--keep-text", help="Keep the answers to your own prompts in the study's folder."),
    ] = False,
    max_tokens: Annotated[
        int, typer.Option("--tokens", metavar="N", help="Tokens generated a request.")
    ] = 256,
    objective: Annotated[
        Objective | None,
        typer.Option(
            help="What is made the most of: generated tokens a second, whole requests, or all slots together. "
            "Default: generation; of a session, turn."
        ),
    ] = None,
    workload: Annotated[
        WorkloadKind,
        typer.Option(
            help="Single prompts, or a session as agents have them: turns that append to a long prefix."
        ),
    ] = WorkloadKind.PROMPTS,
    agents: Annotated[
        int, typer.Option(metavar="N", help="Agents of a session, at the same time, with one prefix.")
    ] = 1,
    parallel: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Slots of each server; with --objective throughput all are kept busy."
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="How much classes of prompts count, such as code=3,prose=1."),
    ] = None,
    depth: Annotated[
        str,
        typer.Option(
            metavar="LIST", help="Ask each prompt behind so many tokens of context, such as 0,8k,32k."
        ),
    ] = "0",
    max_ttft: Annotated[
        str | None,
        typer.Option(
            "--max-ttft",
            metavar="TIME@N",
            help="A winner's first token comes within TIME after N tokens of prompt, such as 2s@8k.",
        ),
    ] = None,
    draft_model: Annotated[
        Path | None, typer.Option(metavar="GGUF", help="A draft model for --spec-type draft-simple.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the sampler and of the requests.")] = 1,
    allow_p2p: Annotated[
        bool, typer.Option("--allow-p2p", help="Allow peer access between cards: it can hang or corrupt.")
    ] = False,
    cool_to: Annotated[
        int | None,
        typer.Option(metavar="C", help="Before each launch wait until every card is down to C °C."),
    ] = None,
    worthwhile: Annotated[
        float,
        typer.Option(
            metavar="PERCENT",
            min=0.0,
            max=100.0,
            help="Stop when an improvement of so much has become unlikely; 0 spends the whole budget.",
        ),
    ] = 1.0,
    confirm: Annotated[
        int,
        typer.Option(metavar="N", help="Confirm the winner with up to N launches a side; 0: not at all."),
    ] = DEFAULT_BLOCKS,
    quality: Annotated[
        str,
        typer.Option(
            metavar="TIME|off", help="Look so long at each launch's answers, against the reference's."
        ),
    ] = "10s",
    min_kv: Annotated[
        str, typer.Option("--min-kv", metavar="TYPE", help="The smallest KV type that is searched.")
    ] = "q8_0",
    endure: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|off",
            help="Put the winner to the test for so long; default: what is left of --budget.",
        ),
    ] = None,
    facts: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where what this rig has taught is kept; default: your data folder."
        ),
    ] = None,
    storage: Storage = None,
    storage_file: StorageFile = None,
    lease: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Of a shared study: a worker that is silent for so long has lost its trial."
        ),
    ] = DEFAULT_LEASE,
    per_rig_class: Annotated[
        bool,
        typer.Option("--per-rig-class", help="Of a shared study: other rigs get one of their own beside it."),
    ] = False,
    on_improvement: Annotated[
        str | None,
        typer.Option(metavar="CMD", help="Run CMD with best.json on its input when there is a better one."),
    ] = None,
    on_finish: Annotated[
        str | None, typer.Option(metavar="CMD", help="Run CMD with best.json on its input at the end.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be launched, and stop.")
    ] = False,
) -> None:
    """Find the fastest llama-server command for these devices.

    Run the same command again to go on where it stopped: nothing that was measured is measured again.
    """
    if sys.platform != "linux":
        raise PlatformError("tuner tune runs on Linux and WSL2; here, commands that only read files work")
    if budget is None and launches is None:
        budget = DEFAULT_BUDGET
    contexts = contexts_of(context)
    more, own_flags = split_words(flags or ())
    servers = [Server.read(text) for text in server or ()]
    options = TuneOptions(
        model=model,
        server=None,
        space=space,
        study=study,
        results=results,
        budget_s=None if budget is None else duration_s(budget),
        launches=launches,
        context=contexts.tokens[0] if contexts.tokens and not contexts.is_ladder else None,
        devices=devices,
        device_memory=device_memory,
        reserve=reserve,
        current=current,
        sampling=sampling,
        thinking=thinking,
        prompts=prompts,
        sample=sample,
        requests=requests,
        offload=offload,
        keep_text=keep_text,
        max_tokens=max_tokens,
        draft_model=draft_model,
        seed=seed,
        allow_p2p=allow_p2p,
        cool_to_c=cool_to,
        worthwhile=worthwhile / 100,
        confirm_blocks=confirm,
        quality_s=None if quality == OFF else duration_s(quality, "--quality"),
        min_kv=min_kv,
        soak=endure != OFF,
        objective=objective,
        weights=weights,
        max_ttft=max_ttft,
        depth=depth,
        session=workload is WorkloadKind.SESSION,
        agents=agents,
        parallel=parallel,
        endure_s=None if endure in {None, OFF} else duration_s(str(endure), "--endure"),
        facts=facts,
        flags=own_flags,
    )
    notifier = Notifier(on_improvement=on_improvement, on_finish=on_finish, say=say)
    from tuner.study.location import location_of  # noqa: PLC0415 - Optuna takes a second

    location = location_of(storage, storage_file, os.environ)
    if location is not None and (more or len(servers) > 1 or contexts.is_ladder):
        raise UsageError("--storage: a study of several machines has one model, one engine and one context")
    # what runs needs Linux (file locks, signals); reading a study does not
    if more or len(servers) > 1:
        if contexts.is_ladder:
            raise UsageError(
                f"--context {context}: a ladder of contexts is of one engine and one file; give one context, or tune "
                "them one by one"
            )
        from tuner.cli.several import run_several  # noqa: PLC0415

        run_several(options, (model, *more), servers, notifier, yes=yes, dry_run=dry_run)
        return
    options = for_one(options, servers)
    if location is not None:
        from tuner.cli.sharing import Sharing, make_and_work  # noqa: PLC0415

        sharing = Sharing(location, lease_of(lease), per_rig_class)
        make_and_work(options, sharing, notifier, yes=yes, dry_run=dry_run)
        return
    if per_rig_class:
        raise UsageError("--per-rig-class: of a study of several machines; give its --storage")
    if contexts.is_ladder:
        from tuner.cli.laddering import run_ladder  # noqa: PLC0415

        run_ladder(options, contexts, notifier, asked=str(context), yes=yes, dry_run=dry_run)
        return
    from tuner.cli.tuning import run_tune  # noqa: PLC0415

    run_tune(options, notifier, yes=yes, dry_run=dry_run)
