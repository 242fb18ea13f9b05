"""The tuner's own deadlines, made short enough that a night of hangs passes in a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

from tuner.engine import process, session
from tuner.engine.client import Deadlines
from tuner.engine.patience import Patiences

if TYPE_CHECKING:
    from contextlib import ExitStack

LOAD_S = 4.0
"""A load that talks and never ends."""
STALL_S = 1.5
"""A load that says nothing; a fake on a busy machine needs half a second for its first line."""
TOKEN_S = 1.0
"""The first token, and each one after it."""
REQUEST_S = 4.0
LAST_WORDS_S = 0.5
TERM_S = 0.4
"""How long the first SIGTERM is waited for; as long the second."""

#: Starting the fake, noticing that a time is over and ending it, on two busy cores.
SLACK_S = 1.5


def shorten(stack: ExitStack) -> None:
    """Put the short ones in place of the real ones for as long as `stack` is open."""
    patiences = Patiences(load_s=LOAD_S, stall_s=STALL_S)
    request = Deadlines(first_token_s=TOKEN_S, between_tokens_s=TOKEN_S, whole_s=REQUEST_S)
    stack.enter_context(patch.object(Patiences, "of", lambda *_: patiences))
    stack.enter_context(patch.object(Patiences, "request", lambda *_, **__: request))
    stack.enter_context(patch.object(session, "LAST_WORDS_S", LAST_WORDS_S))
    stack.enter_context(patch.object(process, "FIRST_TERM_S", TERM_S))
    stack.enter_context(patch.object(process, "SECOND_TERM_S", TERM_S))
