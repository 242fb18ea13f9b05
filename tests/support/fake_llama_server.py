#!/usr/bin/env python3
"""A llama-server for tests: the command line and the HTTP surface of build 11434, and obedience.

It does what a real server cannot be told to do: run out of memory at a chosen stage, hang, die at the third
request, lie about its speed. It needs nothing but the standard library, listens on 127.0.0.1 only, and ends
by itself after ten minutes. `tests/support/fake_engine.py` starts it from tests.

Environment:

    FAKE_RULES       JSON, or the path of a file of it: a list of rules, or
                     {"rules": [...], "defaults": {...}}.
    FAKE_HELP        the build to be: 11434 (the default), 10435 or 9246.
    FAKE_DEVICES     JSON: [[name, description, total MiB, free MiB], ...]; a 5080 and a 3090 by default.
    FAKE_TIME_SCALE  real seconds for each modelled second. At 0, the default, everything is instant, and a
                     client that compares its own clock with `timings` finds them far apart; 1 is honest.
    FAKE_REASONING   1: the first half of every answer is `reasoning_content`.
    FAKE_EVENTS      a file that gets one JSON line for each start, request and stop.

A rule is {"when": {option: value, ...}, "do": {...}}. Options go by any of their spellings without dashes,
values are compared as text, switches are "on" and "off", null is "not given". The first rule that holds
counts; its `do` overrides the defaults. With "times": n beside them a rule holds for its first n launches
only (counted in FAKE_EVENTS). A rule that makes no sense ends the fake with exit code 70.

    load_s, tok_s, prompt_tok_s    how long a load takes (modelled) and the speeds; without them: devices of
                                   60 and 30 tok/s by `-ts`, one after the other (layer), the slower half and
                                   10 % less (tensor), drafts by their acceptance, prompts 25 times as fast.
    draft_acceptance               accepted over drafted tokens, 0.5 by default.
    oom                            {"stage": weights | kv | compute | compute-soft | draft | nccl | runtime,
                                   "device": 0, "mib": 1024}. A stage that the command line never reaches
                                   does not fail: draft without drafts, nccl and compute-soft in the other
                                   split mode. runtime fails at the request that die_in names, or the first.
    exit, signal                   ends with this code, or kills itself.
    die_in                         load | warmup | request:K | completion:K: when exit or signal is due; alone, an
                                   assert. A request is one for a chat, a completion a raw one: see below.
    log                            lines for the log, written when it dies, or else at the end of the load.
    log_flood_mib                  so much more log in the middle of the load.
    hang                           load | load-talking | first-token | mid-stream | after-idle (at the first
                                   token of every request but the first) | completion (raw ones only).
    idle_s                         beside after-idle: only at a request that comes so many real seconds or more
                                   after the end of the last one, whatever the two ask for.
    ignore_sigterm                 true.
    garbage                        true: cut JSON in chat answers; or the paths that answer so.
    half_close                     true: the connection ends in the middle of an answer.
    no_speculation                 true: up, but without drafts.
    n_ctx                          the context of a slot, whatever was asked.
    port_taken                     true: cannot bind.
    text                           what it answers; over again if more tokens are asked for.
    timings_factor                 `predicted_ms` is the true one times this.
    cold                           {"requests": N, "factor": F}: the first N chats after the start are F times
                                   as fast as the rest, prompt and answer, in `timings` and in modelled time.
    hybrid                         true: the model's state cannot be cut: see below.
    cache_lost                     {"from_request": K}: from the K-th chat on nothing is reused, whatever was asked.
    burst                          {"requests": K, "within_s": S}: chats come K at a time; see below.
    company_cost                   what another busy slot adds to a step, 0.05 of a plain one by default.
    kl                             how far its distributions are from the plain ones, in nats.
    nonsense                       true: chats are slashes, and distributions have nothing to do with the plain
                                   ones; it goes before `text` and `kl`.
    router                         true: as without -m.

POST /completion answers what would come next after a text: `n_predict` 1 and no stream, anything else is a 400.
It knows 60 tokens for each text (`n_probs` of them are shown, likeliest first) that hold about 98 % of the whole;
a text has the same distribution on every plain server. Another one is off by the divergence `kl`: half to twice
that, by text, with a median of once. Without the rule that is 0, and 1e-4 for tensor mode, plus the worse of the
two cache types: 3e-3 for q8_0, 1e-2 for q5, 2.5e-2 for q4. It costs the prompt's time, takes a slot (that of
`id_slot`, chats too) and is a request in FAKE_EVENTS, told by its path. Chats and completions are numbered each for
themselves, in FAKE_EVENTS and for die_in, cold and cache_lost (chats only); first-token and after-idle are the
server's and hold for both, mid-stream is for chats only.
POST /tokenize counts as `prompt_n` does, and is no request in FAKE_EVENTS. `garbage` may name both paths.

Prompts are kept as the real one does, with words for tokens (1.3 tokens each where they are read). A slot holds
its last prompt and the answer but for its last word, thoughts included; of the next prompt the common beginning
is not read again, unless `cache_prompt` is false: `cache_n`. A request goes to the idle slot that holds most of
it, if that is more than `--slot-prompt-similarity` of it, or else to the least recently used, at first the last.
Such a one, and one of which less than half is used, has its prompt saved, as has every idle slot when a request
begins (`--cache-idle-slots`; with a shared context it is cleared, too). Saved prompts take 1/8 MiB a token (of an
f16 cache) of `--cache-ram`, the oldest make way, and one is taken back where more of the request and more of the
prompt itself is the same than with what the slot holds, a quarter at least. With `hybrid` a slot's words serve a
prompt that goes on where they end, or else as far as the last checkpoint in the common beginning: it has one before
each last message of a user and one 4 words before the end of each prompt, the newest `--ctx-checkpoints` of them.

As many chats run at once as there are slots. If one comes in company, all slots count as busy until its end, else
its own alone: that is told once, before its answer. Company are those of its burst, and those that were still there
when that began. As everything may be instant, a chat waits for its burst in its slot: for K chats in all, but not
longer than S real seconds (5) after the last that came; without K for S (0.05), and without the rule for 0.05 where
`-np` asks for several slots. A step for n busy slots with d drafted tokens each takes 1 + c (n - 1) plus
n d (0.15 + c (n - 1)) plain ones, where c is `company_cost`: three drafts, half of them accepted, make a slot 1.7
times as fast alone, 1.2 times of two, but 0.6 times of four. `tok_s` is that of one alone; prompts take no longer.

Like the real one it reads LLAMA_ARG_* and refuses a model file that is missing or no GGUF, closes the connection
after a streamed answer although it has advertised it as alive, dies at once from a signal while it loads, and waits
at SIGTERM for the clients of running requests to leave.
"""

import os
import sys

# The script's folder makes way for the repository's root: this file is started from anywhere.
sys.path[0] = os.path.dirname(os.path.dirname(sys.path[0]))  # noqa: PTH120 - pathlib is not loaded for it

if __name__ == "__main__":
    from tests.support.fake_llama.app import main

    main(sys.argv[1:], dict(os.environ))
