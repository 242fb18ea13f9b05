"""YAML as people read it: keys in their order, long texts as blocks, every text a text."""

from __future__ import annotations

import re
from typing import Any

import yaml

#: What one version of YAML takes for a number and another does not, such as 1e3.
_NUMBER_LIKE = re.compile(r"[-+.]?\d")


class Block(str):
    """A text of several lines that is written as such."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Our own, so that nobody else's documents change."""


def _block(dumper: yaml.SafeDumper, text: Block) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="'" if _NUMBER_LIKE.match(text) else None
    )


_Dumper.add_representer(Block, _block)
_Dumper.add_representer(str, _text)


def yaml_text(document: Any) -> str:  # noqa: ANN401 - whatever YAML holds
    """A document as text."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**9)
