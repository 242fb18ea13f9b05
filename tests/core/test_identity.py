"""What a study was made with."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY, texts
from tuner.core.identity import Part, StudyIdentity, digest_of

identities = st.dictionaries(texts, st.builds(Part, texts, texts)).map(StudyIdentity)


def test_differences_are_named_by_what_people_call_them() -> None:
    made = StudyIdentity({"model": Part("1", "a.gguf"), "engine": Part("2", "build 11434")})
    now = StudyIdentity({"model": Part("1", "/elsewhere/a.gguf"), "engine": Part("3", "build 11500")})
    assert made.differences(now) == ["engine: made with build 11434, now build 11500"]


def test_a_part_that_is_gone_differs() -> None:
    made = StudyIdentity({"draft model": Part("1", "d.gguf")})
    assert made.differences(StudyIdentity({})) == ["draft model: made with d.gguf, now nothing"]


@PROPERTY
@given(identities)
def test_an_identity_does_not_differ_from_itself_in_json(identity: StudyIdentity) -> None:
    again = StudyIdentity.from_json(json.loads(json.dumps(identity.to_json())))
    assert again == identity
    assert identity.differences(again) == []


def test_a_digest_goes_by_content() -> None:
    assert digest_of({"a": 1, "b": (2, 3)}) == digest_of({"b": [2, 3], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})
    assert digest_of(Part("1", "x")) == digest_of(Part("1", "x"))
    assert digest_of(Part("1", "x")) != digest_of(Part("2", "x"))
    assert len(digest_of(None)) == 64
