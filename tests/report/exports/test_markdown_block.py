"""The block shows what was measured and nothing that is its owner's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from tests.support.strategies import PROPERTY
from tests.support.winners import DEVICES, a_winner
from tuner.core.serving import Serving
from tuner.report.exports.markdown_block import MarkdownBlock
from tuner.report.exports.public_words import LEFT_OPEN, public_words

#: What would give its owner away.
OWNERS = ["alice", "nas.local", "10.0.0.7", "/home", "secret-word"]
WORDS = [
    *("--rpc", "nas.local:50052,10.0.0.7:50052", "--tensor-split", "24,7", "--device", "RPC0,CUDA1"),
    *("--mmproj", "/home/alice/mmproj.gguf", "--lora", "/home/alice/secret-word.bin", "--alias", "alice"),
    *("--slot-save-path", "/home/alice/slots", "--override-tensor", r"blk\.(1|2)\.ffn_.*_exps=CPU"),
    *("--chat-template-kwargs", '{"user": "alice"}', "-ctk", "q8_0", "--spec-type", "ngram-mod,draft-mtp"),
    *("--log-file", "alice.log", "--tags", "alice", "--spec-draft-p-min", "0.25", "-ngl", "all"),
]
SERVING = Serving(host="nas.local", port=4711, api_key_file="/home/alice/secret-word")


def block(**changes: object) -> str:
    winner = a_winner(
        WORDS,
        program="/home/alice/llama.cpp/llama-server",
        model="/home/alice/Qwen-27B-Q8_0.gguf",
        environment={"GGML_CUDA_ALLREDUCE": "internal", "CUDA_CACHE_PATH": "/home/alice/.nv"},
        devices=(("RPC0", "nas.local:50052", None), DEVICES[1]),
        serving=SERVING,
    )
    document = {**winner.document, **changes}
    return MarkdownBlock().write(replace(winner, document=document))


def tree(text: str) -> SyntaxTreeNode:
    """As forums with GitHub's flavour read it."""
    return SyntaxTreeNode(MarkdownIt("gfm-like", {"linkify": False}).disable("linkify").parse(text))


def test_it_is_a_heading_a_table_a_command_and_a_sentence() -> None:
    root = tree(block())
    assert [node.type for node in root.children] == ["paragraph", "table", "fence", "paragraph"]
    table = root.children[1]
    rows = [
        [cell.children[0].content for cell in row.children]
        for part in table.children
        for row in part.children
    ]
    assert rows[0] == ["", "tok/s", "prompt tok/s", "first token", "drafts accepted", "winner is"]
    assert rows[1][:2] == ["winner", "80.0"]
    assert rows[2][:2] == ["the engine's own choice", "40.0"]
    assert rows[2][5] == "2.00x (not confirmed)"
    assert "NVIDIA GeForce RTX 3090 (16 GiB)" in root.children[0].children[0].content


def test_the_command_has_all_that_was_tuned() -> None:
    assert tree(block()).children[2].content == (
        "CUDA_CACHE_PATH=... GGML_CUDA_ALLREDUCE=internal llama-server -m Qwen-27B-Q8_0.gguf --rpc ... "
        "--tensor-split 24,7 --device RPC0,CUDA1 --mmproj mmproj.gguf --lora ... --slot-save-path ... "
        r"--override-tensor 'blk\.(1|2)\.ffn_.*_exps=CPU' --chat-template-kwargs ... -ctk q8_0 "
        "--spec-type ngram-mod,draft-mtp --log-file ... --tags ... --spec-draft-p-min 0.25 -ngl all\n"
    ).replace(
        "CUDA_CACHE_PATH=... GGML_CUDA_ALLREDUCE=internal", "GGML_CUDA_ALLREDUCE=internal CUDA_CACHE_PATH=..."
    )


@pytest.mark.parametrize("owners", [*OWNERS, "4711", "GPU-"])
def test_nothing_of_its_owners_is_in_it(owners: str) -> None:
    assert owners not in block()


def test_own_prompts_are_not_named() -> None:
    workload = a_winner().document["workload"] | {"prompts": "/home/alice/secret-word"}
    text = block(workload=workload)
    assert "secret-word" not in text
    assert "the owner's own prompts" in text


@PROPERTY
@given(
    st.sampled_from(["--log-file", "--new-flag", "-x", "--tags"]),
    st.text(st.characters(codec="utf-8", categories=["Ll"]), min_size=4, max_size=10),
    st.sampled_from(["{}", "/home/{}/x", "{}.local", "{}:8080", "{}@box", "a,{}", "~{}/y.bin", "1,{}"]),
)
def test_no_name_is_shown_whatever_flag_it_follows(flag: str, name: str, form: str) -> None:
    known = {
        "none",
        "auto",
        "true",
        "false",
        "layer",
        "tensor",
        "mmap",
        "mlock",
        "greedy",
        "linear",
        "yarn",
        "nccl",
    }
    shown = public_words("/x/llama-server", [flag, form.format(name)])
    assert shown == ["llama-server", flag, LEFT_OPEN] or name in known


def test_a_name_of_a_model_cannot_break_the_table_or_the_text() -> None:
    winner = a_winner(name="a | b\n\n# c `d` <script> *e*")
    root = tree(MarkdownBlock().write(winner))
    assert [node.type for node in root.children] == ["paragraph", "table", "fence", "paragraph"]
