"""How far answers are from the reference's, in nats."""

from __future__ import annotations

from dataclasses import replace
from math import log
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.played_server import next_token
from tests.support.strategies import PROPERTY
from tuner.core.quality import (
    BOUND_NATS,
    Loss,
    NextToken,
    Position,
    Probe,
    Quality,
    bound_nats,
    divergence_nats,
    loss,
)

VOCABULARY = 12


def shown(**parts: float) -> NextToken:
    return NextToken(MappingProxyType({ord(name): part for name, part in parts.items()}))


def the_likeliest(weights: list[float], n: int) -> NextToken:
    """What a server shows of a whole distribution."""
    ranked = sorted(range(len(weights)), key=lambda token: (-weights[token], token))[:n]
    return NextToken(MappingProxyType({token: weights[token] / sum(weights) for token in ranked}))


whole = st.lists(st.floats(1e-3, 1.0), min_size=VOCABULARY, max_size=VOCABULARY)
how_many = st.integers(0, VOCABULARY)


@PROPERTY
@given(whole, whole, how_many, how_many)
def test_divergence_is_never_negative_and_never_above_that_of_the_whole_vocabulary(
    mine: list[float], theirs: list[float], n: int, m: int
) -> None:
    p, q = ([weight / sum(weights) for weight in weights] for weights in (mine, theirs))
    whole_nats = sum(a * log(a / b) for a, b in zip(p, q, strict=True))
    found = divergence_nats(the_likeliest(mine, n), the_likeliest(theirs, m))
    assert 0.0 <= found <= whole_nats + 1e-6


@PROPERTY
@given(whole, whole)
def test_who_shows_all_is_judged_by_all(mine: list[float], theirs: list[float]) -> None:
    p, q = ([weight / sum(weights) for weight in weights] for weights in (mine, theirs))
    found = divergence_nats(the_likeliest(mine, VOCABULARY), the_likeliest(theirs, VOCABULARY))
    assert found == pytest.approx(sum(a * log(a / b) for a, b in zip(p, q, strict=True)), abs=1e-6)


@PROPERTY
@given(whole, how_many)
def test_nothing_diverges_from_itself(weights: list[float], n: int) -> None:
    one = the_likeliest(weights, n)
    assert divergence_nats(one, one) == pytest.approx(0.0, abs=1e-12)


def test_what_neither_shows_counts_as_one_event() -> None:
    found = divergence_nats(shown(a=0.6, b=0.2), shown(a=0.5, b=0.1))
    assert found == pytest.approx(0.6 * log(0.6 / 0.5) + 0.2 * log(0.2 / 0.1) + 0.2 * log(0.2 / 0.4))


def test_two_that_show_nothing_in_common_are_far_apart() -> None:
    assert divergence_nats(shown(a=0.6, b=0.3), shown(c=0.6, d=0.3)) > 1.0
    flat = NextToken(MappingProxyType(dict.fromkeys(range(1000, 1200), 1 / 50_000)))
    assert divergence_nats(shown(a=0.6, b=0.3), flat) > 5.0


def test_a_token_at_the_edge_of_what_is_shown_says_little() -> None:
    found = divergence_nats(shown(a=0.9, b=0.0101, c=0.0100), shown(a=0.9, b=0.0101, d=0.0100))
    assert found == pytest.approx(0.0, abs=1e-9)


def test_who_shows_nothing_says_nothing() -> None:
    assert divergence_nats(shown(a=0.9), shown()) == 0.0
    assert divergence_nats(shown(), shown(a=0.9)) == pytest.approx(0.0, abs=1e-12)
    assert shown().top is None


@pytest.mark.parametrize("nats", [0.001, 0.02, 0.5])
def test_the_played_server_is_as_far_off_as_it_is_told_to_be(nats: float) -> None:
    found = divergence_nats(next_token("It was"), next_token("It was", nats))
    assert found == pytest.approx(nats, rel=1e-3)


# --- many places


def probe(nats: dict[str, float], *, deep: str = "") -> Probe:
    """Places whose next tokens are so far off; those named in `deep` are deep."""
    rows = (Position(name, 100, next_token(name, off), deep=name in deep) for name, off in nats.items())
    return Probe(tuple(rows), 1.5, 4000 if deep else 0)


def places(names: str, off: float = 0.0, deep: str = "", **other: float) -> Probe:
    return probe({**dict.fromkeys(names, off), **other}, deep=deep)


def test_one_near_tie_does_not_count() -> None:
    found = loss(places("abcde"), places("abcde", 0.001, c=2.0))
    assert found is not None
    assert found.kl_nats == pytest.approx(0.001, rel=0.01)
    assert found.worst_kl_nats == pytest.approx(2.0, rel=0.01)
    assert found.positions == 5
    assert found.top1 == pytest.approx(4 / 5)
    assert found.deep_kl_nats is None
    assert found.judged_nats == found.kl_nats


def test_deep_places_are_judged_by_themselves() -> None:
    reference, other = places("abfgh", deep="fgh"), places("abfgh", deep="fgh", f=0.3, g=0.3, h=0.3)
    found = loss(reference, other)
    assert found is not None
    assert found.kl_nats == 0.0
    assert found.deep_kl_nats == found.judged_nats == pytest.approx(0.3, rel=0.01)


def test_two_deep_places_are_too_few() -> None:
    found = loss(places("abcdefg", deep="fg"), places("abcdefg", deep="fg", f=0.3, g=0.3))
    assert found is not None
    assert found.deep_kl_nats is None
    assert found.judged_nats == 0.0


def test_only_places_that_both_know_are_compared() -> None:
    found = loss(places("abcde"), places("dexyz", 0.01))
    assert found is not None
    assert found.positions == 2
    assert loss(places("abc"), places("xyz")) is None
    assert loss(places("abc"), Probe((), 0.0)) is None


def test_deep_places_behind_another_text_are_other_places() -> None:
    reference, other = places("abfgh", deep="fgh"), places("abfgh", 0.01, deep="fgh", f=0.3, g=0.3, h=0.3)
    found = loss(reference, replace(other, deep_characters=reference.deep_characters + 2000))
    assert found is not None
    assert found.positions == 2
    assert found.deep_kl_nats is None
    assert found.worst_kl_nats == pytest.approx(0.01, rel=0.01)


def test_a_reference_that_differs_from_itself_allows_more() -> None:
    assert bound_nats(0.0) == bound_nats(BOUND_NATS / 4) == BOUND_NATS
    assert bound_nats(0.01) == pytest.approx(0.04)


# --- on disk


@PROPERTY
@given(st.lists(st.tuples(st.text(max_size=8), whole, how_many, st.booleans(), st.integers(0, 10**5))))
def test_a_probe_survives_json_but_for_rounding(
    rows: list[tuple[str, list[float], int, bool, int]],
) -> None:
    before = Probe(
        tuple(
            Position(name, tokens, the_likeliest(weights, n), deep=deep)
            for name, weights, n, deep, tokens in rows
        ),
        2.5,
        400,
    )
    after = Probe.from_json(before.to_json())
    assert replace(after, positions=()) == replace(before, positions=())
    for one, other in zip(before.positions, after.positions, strict=True):
        assert (one.name, one.tokens, one.deep) == (other.name, other.tokens, other.deep)
        assert other.next.probabilities == pytest.approx(dict(one.next.probabilities), rel=1e-4)
        assert divergence_nats(one.next, other.next) < 1e-4


def test_likeliest_tokens_come_first() -> None:
    assert [row[0] for row in next_token("It").to_json()] == list(next_token("It").probabilities)
    assert shown(a=0.2, b=0.5).top == ord("b")


nats = st.floats(0, 20)
losses = st.builds(
    Loss, st.integers(1, 200), st.integers(0, 10**5), nats, st.none() | nats, nats, st.floats(0, 1)
)


@PROPERTY
@given(
    st.builds(
        Quality,
        st.none() | losses,
        nats,
        nats,
        st.none() | st.floats(0, 1),
        nats,
        st.none() | st.text(),
        st.none() | losses,
    )
)
def test_a_quality_survives_json(quality: Quality) -> None:
    assert Quality.from_json(quality.to_json()) == quality


def test_a_quality_of_a_study_of_one_file_reads_as_before() -> None:
    quality = Quality(None, BOUND_NATS, 0.0, None, 1.5)
    before = {name: value for name, value in quality.to_json().items() if name != "to_largest"}
    assert Quality.from_json(before) == quality


@pytest.mark.parametrize("document", [{}, {"positions": [{}], "seconds": 1, "deep_characters": 0}, []])
def test_a_document_of_another_form_is_refused(document: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Probe.from_json(document)
