"""Options that contradict each other, the model or the devices, one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.checked_commands import NEW, OLD, PROBLEM, SOUND, WARNING, findings, one, said
from tests.support.models import model
from tuner.engine.help_text import HelpText

if TYPE_CHECKING:
    from tuner.core.checkup.check import Level


@pytest.mark.parametrize(
    ("words", "subject", "remedy"),
    [
        ("-dev CUDA0,CUDA7", "-dev CUDA0,CUDA7", "write names out of CUDA0, CUDA1"),
        ("-ts most,rest", "-ts most,rest", "write numbers such as -ts 3,2"),
        ("-ts " + ",".join("1" * 16), "-ts " + ",".join("1" * 16), "write one a device"),
        ("-ts 3,-2", "-ts 3,-2", "write numbers such as -ts 3,2"),
        ("-sm none -mg 2", "-mg 2", "write -mg with a number below 2"),
        ("-sm tensor -fa off", "-sm tensor", "write -fa on"),
        ("-ctk q8_0 -ctv q8_0 -fa off", "-ctv q8_0", "write -fa on"),
        ("--spec-type draft-simple", "--spec-type draft-simple", "add -md with the draft model's file"),
        ("--spec-type ngram-mod -md d.gguf", "-md d.gguf", "add --spec-type draft-simple"),
        ("-ncmoe -1", "-ncmoe -1", "write a number of layers, or leave it out"),
    ],
)
def test_what_keeps_the_server_from_doing_it_is_a_problem(words: str, subject: str, remedy: str) -> None:
    check = one(words)
    assert (check.level, check.subject, check.remedy) == (PROBLEM, subject, remedy)


@pytest.mark.parametrize(
    ("words", "subject", "text"),
    [
        ("-ngl 9 -ngl 99", "--gpu-layers", "set 2 times (-ngl 9, -ngl 99); the last one counts"),
        ("-kvu -no-kvu", "--kv-unified", "set 2 times (-kvu, -no-kvu)"),
        ("-sm none -ts 3,2", "-ts 3,2", "no effect: -sm none uses one device"),
        ("-dev CUDA0 -ts 3,2", "-ts 3,2", "no effect: there is one device"),
        ("-ts 3", "-ts 3", "1 proportion for 2 devices: the last one gets nothing"),
        ("-ts 3/2/1", "-ts 3/2/1", "3 proportions for 2 devices: those at the end are dropped"),
        ("-mg 1", "-mg 1", "no effect with -sm layer"),
        ("-sm tensor -dev CUDA1", "-sm tensor", "made for several devices"),
        ("-sm tensor -bs", "-bs", "tokens are sampled on the CPU"),
        ("-ngl 65", "-ngl 65", "leaves 1 of 66 units on the CPU: the first layer"),
        ("-ngl 0", "-ngl 0", "leaves all 66 units on the CPU"),
        ("-fit on -sm tensor", "-fit on", "places nothing, as -sm tensor says where"),
        ("-ncmoe 9", "-ncmoe 9", "switches pipeline parallelism off"),
        ("-ub 4096", "-ub 4096", "cut to 2048"),
        ("-ctk q8_0", "-ctk q8_0", "no FlashAttention kernel for K as q8_0 and V as f16"),
        ("-md d.gguf", "-md d.gguf", "an ordinary draft model is loaded and never used"),
        ("--spec-draft-p-split 0.1", "--spec-draft-p-split 0.1", "never reads it"),
        ("--spec-draft-n-max 3", "--spec-draft-n-max 3", "no effect: --spec-type is none"),
        ("--spec-type ngram-mod -devd CUDA1", "-devd CUDA1", "no effect: ngram-mod does not read it"),
        ("--spec-ngram-mod-n-max 9", "--spec-ngram-mod-n-max 9", "no effect without --spec-type ngram-mod"),
        (
            "--spec-ngram-map-k4v-size-n 9 --spec-type ngram-map-k",
            "--spec-ngram-map-k4v-size-n 9",
            "no effect without --spec-type ngram-map-k4v",
        ),
        ("--host 127.0.0.1,::", "--host 127.0.0.1,::", "open to your network"),
    ],
)
def test_what_is_not_what_it_looks_like_is_a_warning(words: str, subject: str, text: str) -> None:
    check = one(words)
    assert (check.level, check.subject) == (WARNING, subject)
    assert text in check.text
    assert check.remedy


@pytest.mark.parametrize(
    "words",
    [
        "-ngl auto",
        "-ngl all",
        "-ngl -1",
        "-ngl 66",
        "-fa 1",
        "-fa -1",
        "-ts 60%,40%",
        "-lv 9",
        "--reasoning-format auto",
        "--poll-batch 1",
        "--spec-type ngram-mod --spec-type draft-mtp --spec-draft-n-max 3",
        "--lora a.gguf --lora b.gguf",
        "-ngl 99 --n-gpu-layers 99",
        "-fit on -fitt 512",
        "-sm none -ncmoe 9",
        "-sm none -mg 1",
        "-dev none",
        "--rpc host:1 -dev CUDA0,RPC0 -ts 3,2",
        "--host 0.0.0.0 --api-key k",
        "--host /run/llama.sock",
        "--spec-type draft-simple -md d.gguf -devd CUDA1 --spec-draft-n-max 3",
        "--spec-default --spec-ngram-mod-n-max 9",
        "--spec-type ngram-cache -lcs a.bin",
    ],
)
def test_what_is_in_order_is_not_mentioned(words: str) -> None:
    assert findings(f"{SOUND} {words}") == []


def test_draft_model_alone_is_judged_by_the_age_of_the_build() -> None:
    assert "builds of this age draft with it" in one("-md d.gguf", OLD).text
    between = HelpText(NEW.text.replace("--spec-draft-sampling", "--spec-draft-other"))
    assert one("-md d.gguf", between).level is PROBLEM
    ancient = HelpText(OLD.text.replace("draft-simple,draft-eagle3,draft-mtp,", ""))
    assert findings(f"{SOUND} -md d.gguf --spec-draft-n-max 3", ancient) == []


# --- variables


@pytest.mark.parametrize(
    ("assigned", "words", "level", "text"),
    [
        ("LLAMA_ARG_BATCH=64", "-b 128", WARNING, "overridden by -b 128"),
        ("LLAMA_ARG_DRAFT_MAX=16", "", PROBLEM, "the server does not start"),
        ("LLAMA_ARG_MLOCK=1", "", WARNING, "so it sets nothing"),
        ("LLAMA_ARG_UBATCHES=1", "", WARNING, "knows no such variable"),
        ("LLAMA_ARG_SPLIT_MODE=rows", "", PROBLEM, "the help does not list this value"),
        ("LLAMA_ARG_UBATCH=1k", "", PROBLEM, "reads it as 1"),
        ("LLAMA_ARG_HOST=0.0.0.0", "", WARNING, "open to your network"),
        ("LLAMA_ARG_TENSOR_SPLIT=1,2", "-sm none", WARNING, "no effect"),
        ("GGML_CUDA_ENABLE_UNIFIED_MEMORY=1", "", WARNING, "pages to the host's"),
        ("GGML_CUDA_P2P=0", "", WARNING, "any value turns peer access on"),
        ("CUDA_VISIBLE_DEVICES=1", "", WARNING, "fastest card first"),
    ],
)
def test_variable_is_judged_like_a_flag(assigned: str, words: str, level: Level, text: str) -> None:
    (check,) = findings(f"{assigned} {SOUND} {words}")
    assert check.level is level
    assert text in check.text


@pytest.mark.parametrize(
    "assigned",
    [
        "CUDA_VISIBLE_DEVICES=0,1 CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES=GPU-1234,GPU-5678",
        "LLAMA_ARG_NO_REPACK=1",
        "LLAMA_ARG_FLASH_ATTN=1",
        "LLAMA_ARG_HOST=0.0.0.0 LLAMA_API_KEY=k",
        "GGML_CUDA_P2P=1",
    ],
)
def test_variable_that_is_in_order_is_not_mentioned(assigned: str) -> None:
    assert findings(f"{assigned} {SOUND}") == []


# --- context and slots


def test_context_that_nobody_gave() -> None:
    (check,) = findings("llama-server -m m -np 1")
    assert check.subject == "-c"
    assert "all 262,144 tokens" in check.text
    assert "what --fit leaves of it, down to 4,096" in check.text
    (check,) = findings("llama-server -m m -np 1 --fit off", of_model=None)
    assert check.text == "not given: the model's whole context is asked for"


def test_context_beyond_what_the_model_was_trained_for() -> None:
    (check,) = findings("llama-server -m m -np 1 -c 524288")
    assert check.remedy == "write -c 262144"
    assert findings("llama-server -m m -np 2 -kvu -c 524288") == []
    assert findings("llama-server -m m -np 1 -c 524288 --rope-scaling yarn") == []


def test_slots_without_a_unified_cache_get_a_part_of_the_context() -> None:
    (check,) = findings("llama-server -m m -np 4 -c 32768")
    assert check.text.startswith("4 slots of 8,192 tokens")
    assert check.remedy == "add --kv-unified to let them share it, or write -c 131072"
    assert findings("llama-server -m m -np 4 -c 32768 -kvu") == []
    assert said(findings("llama-server -m m -np 0 -c 32768")) == [(PROBLEM, "-np 0")]
    (check,) = findings("llama-server -m m -np 4 -c 0", of_model=None)
    assert "4 times smaller" in check.text


def test_command_without_a_model_starts_a_router() -> None:
    assert said(findings("llama-server -c 4096 -np 1")) == [(WARNING, "-m")]
    assert findings("LLAMA_ARG_MODEL=m.gguf llama-server -c 4096 -np 1") == []
    assert findings("llama-server --gpt-oss-20b-default -c 4096 -np 1") == []


# --- what depends on the model


def test_tensor_mode_is_refused_by_some_architectures() -> None:
    assert one("-sm tensor", of_model=model(architecture="deepseek2")).level is PROBLEM
    assert findings(f"{SOUND} -sm tensor", of_model=None) == []


def test_mtp_drafts_need_mtp_layers_or_a_model_of_their_own() -> None:
    check = one("--spec-type draft-mtp", of_model=model())
    assert (check.level, check.subject) == (PROBLEM, "--spec-type draft-mtp")
    assert findings(f"{SOUND} --spec-type draft-mtp -md d.gguf", of_model=model()) == []
    assert findings(f"{SOUND} --spec-type draft-mtp", of_model=None) == []


def test_latent_attention_needs_one_cache_type() -> None:
    check = one("-ctk q8_0", of_model=replace(model(), head_dim_v=0), all_quants=True)
    assert (check.level, check.remedy) == (PROBLEM, "write -ctk q8_0 -ctv q8_0")


def test_quantised_cache_in_tensor_mode_is_refused_by_old_builds() -> None:
    assert "builds before 10001" in one("-sm tensor -ctk q8_0 -ctv q8_0", OLD).text
    assert findings(f"{SOUND} -sm tensor -ctk q8_0 -ctv q8_0") == []


@pytest.mark.parametrize(
    ("value", "text", "remedy"),
    [
        (r"blk\.\d{1", "names no memory after a =", "write PATTERN=CPU or PATTERN=DEVICE"),
        ("(=CPU", "'(' is no regular expression", "close its brackets"),
        ("exps=CUDA7", "has no memory called 'CUDA7'", "write CPU or CUDA0 or CUDA1"),
    ],
)
def test_pattern_that_the_engine_refuses_is_a_problem(value: str, text: str, remedy: str) -> None:
    (check,) = (check for check in findings(f"{SOUND} -ot '{value}'") if check.level is PROBLEM)
    assert text in check.text
    assert check.remedy.startswith(remedy)


def test_pattern_that_can_be_evaluated_is_no_problem() -> None:
    words = r"-ot 'blk\.(1|2)\..*exps=CUDA1' -ot token_embd=CPU"
    assert [check for check in findings(f"{SOUND} {words}") if check.level is PROBLEM] == []


def test_flag_that_a_build_lacks_is_refused() -> None:
    check = one("-ncffn 3", OLD)
    assert check.level is PROBLEM
    assert "-ncffn" in check.subject


def test_count_of_none_leaves_the_pipeline_alone() -> None:
    assert findings(f"{SOUND} -ncmoe 0") == []
    assert "pipeline parallelism" in one("-ncmoe 1").text
