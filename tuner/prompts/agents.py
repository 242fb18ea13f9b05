"""A session as agents have them: a long prefix, turns that append what a tool has read, one message that is edited.

The text is code that nobody has written before, made by rule, so that a session is always the same and of any
length.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from tuner.core.session import Script, Step

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Of the code that is made here.
CHARACTERS_A_TOKEN = 3.0
PREFIX_TOKENS = 12_000
#: What each turn appends, in tokens: what tools return is short now and long then.
TURNS_TOKENS = (400, 1200, 200, 2000, 600, 300, 1500, 800)
#: Before which turn somebody else asks something short, and which turn says an earlier message anew.
_OTHERS_TURN, _EDITED_TURN, _SAID_ANEW = 5, 7, 4
SECOND_CLIENT = "second-client"

_NOUNS = "ledger parcel invoice crane berth tariff manifest pilot buoy ferry customs cargo tide lock".split()
_VERBS = "load merge price audit split queue match trim weigh route sign stamp".split()
_TYPES = "int float str bytes Decimal datetime".split()
_RULES = (
    "You work on the harbour's booking system. You read files with read_file, change them with apply_patch and run "
    "the tests with run_tests. Say in two sentences what you have understood, then write the change as a patch, "
    "then say how it is tested. Keep names, keep the style of the file, and never touch what was not asked for."
)


def agent_session(agents: int) -> Script:
    """A session of so many agents that share their prefix and go through their turns side by side.

    In between a second client asks something short, and each agent's fourth message is said anew, which takes back
    what came after it.

    Args:
        agents: How many, at the same time.
    """
    names = [f"agent-{n}" for n in range(1, agents + 1)]
    system = {"role": "system", "content": f"{_RULES}\n\n{_code(0, PREFIX_TOKENS)}"}
    rounds: list[tuple[Step, ...]] = [
        tuple(Step(name, "start", "start", (system, _user(name, 0, 120))) for name in names)
    ]
    for turn, tokens in enumerate(TURNS_TOKENS, 1):
        if turn == _OTHERS_TURN:
            asked = {
                "role": "user",
                "content": "In one paragraph: why does a tide table differ from port to port?",
            }
            rounds.append((Step(SECOND_CLIENT, "question", "other", (asked,)),))
        if turn == _EDITED_TURN:  # system, start and its answer, and each turn with its own
            keeps = 3 + 2 * (_SAID_ANEW - 1)
            rounds.append(
                tuple(
                    Step(name, f"turn-{_SAID_ANEW}-edited", "edit", (_user(name, 100 + turn, tokens),), keeps)
                    for name in names
                )
            )
            continue
        rounds.append(
            tuple(Step(name, f"turn-{turn}", "turn", (_user(name, turn, tokens),)) for name in names)
        )
    document = [[[s.client, s.name, s.kind, list(s.messages), s.keeps] for s in steps] for steps in rounds]
    return Script(
        rounds=tuple(rounds),
        digest=hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest(),
        longest_tokens=PREFIX_TOKENS + 400 + sum(TURNS_TOKENS),
        most_answers=1 + len(TURNS_TOKENS),
    )


def _user(client: str, turn: int, tokens: int) -> Mapping[str, Any]:
    """What a tool returned, and what is wanted next; no two agents say the same."""
    seed = sum(map(ord, client)) * 1000 + turn * 17 + 1
    verb, noun = _VERBS[seed % len(_VERBS)], _NOUNS[seed % len(_NOUNS)]
    code = _code(seed, tokens)
    return {
        "role": "user",
        "content": f"read_file returned:\n\n{code}\nNow {verb} each {noun} in it only once.",
    }


def _code(seed: int, tokens: int) -> str:
    """About so many tokens of functions, other ones for each seed."""
    pieces: list[str] = []
    length = 0
    for n in range(tokens):
        if length >= tokens * CHARACTERS_A_TOKEN:
            break
        pieces.append(_function(seed * 7919 + n))
        length += len(pieces[-1])
    return "".join(pieces)


def _function(n: int) -> str:
    verb, noun = _VERBS[n * 5 % 12], _NOUNS[n * 3 % 14]
    other, kind = _NOUNS[(n * n + 7) % 14], _TYPES[n % 6]
    limit, step = 3 + n * 37 % 911, 1 + n * n % 17
    return (
        f"def {verb}_{noun}_{n % 997}({noun}s: list[{kind}], {other}: int = {limit}) -> dict[str, {kind}]:\n"
        f"    found = {{}}\n"
        f"    for place, {noun} in enumerate({noun}s[::{step}]):\n"
        f"        if place % {other} == {limit % step}:\n"
        f"            found[f'{other}-{{place + {limit}}}'] = {noun}\n"
        f"    return found\n\n\n"
    )
