"""At which blocks a confirmation is looked at, and what of the error is spent there.

A block is one launch of every candidate. Who looks often and stops at the first difference finds one in noise, so
the looks are planned and share an error of 5 %: each may spend in proportion to the blocks since the look before
(the linear spending of Lan & DeMets 1983, Biometrika 70:659). The shares add up, so that by the union bound all looks
together err in at most 5 % of confirmations, few blocks or many, however the looks are correlated.
"""

from __future__ import annotations

from fractions import Fraction

#: What all looks of a confirmation may err together.
ALPHA = Fraction(1, 20)
LEVEL = float(1 - ALPHA)
_EARLY = (4, 6, 8)
_STEP = 4


def looks(blocks: int) -> tuple[int, ...]:
    """After how many blocks is looked, in rising order; the last look is after all of them.

    Raises:
        ValueError: Fewer than one block.
    """
    if blocks < 1:
        raise ValueError(f"{blocks} blocks: there must be at least 1")
    planned = (*_EARLY, *range(_EARLY[-1] + _STEP, blocks, _STEP))
    return (*(look for look in planned if look < blocks), blocks)


def looks_until(look: int, blocks: int, *, final: bool = False) -> tuple[int, ...]:
    """The looks that were taken, this one last.

    Args:
        look: Blocks so far.
        blocks: Blocks planned.
        final: Whether no block will follow, because time ran out: such a look may be taken after any block.

    Raises:
        ValueError: No look is planned there, and it is not the last.
    """
    planned = looks(blocks)
    if look not in planned and not (final and 1 <= look < blocks):
        raise ValueError(f"no look is planned after {look} of {blocks} blocks, only after {planned}")
    return (*(earlier for earlier in planned if earlier < look), look)


def alpha_at(look: int, blocks: int, *, previous: int = 0, final: bool = False) -> Fraction:
    """What a look may err: its share of 5 %, or all that is left where no block will follow.

    Args:
        look: Blocks so far.
        blocks: Blocks planned.
        previous: Blocks at the look before; 0 at the first.
        final: Whether it is the last look. That holds only where time ended it, not the ratios.

    Raises:
        ValueError: The numbers are not in rising order.
    """
    if not 0 <= previous < look <= blocks:
        raise ValueError(f"a look after {look} of {blocks} blocks cannot follow one after {previous}")
    return ALPHA * Fraction((blocks if final else look) - previous, blocks)
