"""Control codes: decoding, its inverse, and codes that no assembler writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutgen import LayoutgenError
from layoutgen.sass.control import Control, split

barrier = st.none() | st.integers(0, 5)
controls = st.builds(
    Control,
    stall=st.integers(0, 15),
    yields=st.booleans(),
    write=barrier,
    read=barrier,
    wait=st.sets(st.integers(0, 5)).map(lambda found: tuple(sorted(found))),
    reuse=st.sets(st.integers(0, 3)).map(lambda found: tuple(sorted(found))),
)


@given(controls)
def test_decode_inverts_encode(control):
    assert Control.decode(control.encode()) == control
    assert control.encode() < 1 << 21


@given(controls, st.integers(0, (1 << 105) - 1))
def test_split_takes_the_code_out_of_an_instruction(control, operation):
    assert split(control.encode() << 105 | operation) == (operation, control)


@pytest.mark.parametrize(
    ("high", "text"),
    [
        (0x000FE40000000F00, "B------:R-:W-:-:S02"),  # MOV R1, c[0x0][0x28]
        (0x000E220000002700, "B------:R-:W0:-:S01"),  # S2R R119, SR_CTAID.Z
        (0x000E620000002100, "B------:R-:W1:-:S01"),  # S2R R20, SR_TID.X
    ],
)
def test_encodings_that_nvdisasm_prints(high, text):
    assert str(split(high << 64)[1]) == text


def test_each_field_lies_where_the_facts_say():
    """Low to high: stall 4, yield 1 (inverted), write 3, read 3, wait 6, reuse 4."""
    nothing = Control(stall=0, yields=False, write=None, read=None, wait=(), reuse=()).encode()
    assert nothing == 0b0000_000000_111_111_1_0000
    for bit in range(6):
        assert Control.decode(nothing | 1 << 11 + bit).wait == (bit,)
    for bit in range(4):
        assert Control.decode(nothing | 1 << 17 + bit).reuse == (bit,)
    assert Control.decode(nothing & ~(1 << 4)).yields
    assert Control.decode(nothing & ~(7 << 5) | 3 << 5).write == 3
    assert Control.decode(nothing & ~(7 << 8) | 4 << 8).read == 4


def test_a_seventh_barrier_is_refused():
    with pytest.raises(LayoutgenError, match="sets barrier 6"):
        Control.decode(6 << 5 | 7 << 8)
    with pytest.raises(LayoutgenError, match="barrier 6; 0 to 5 exist"):
        Control(stall=1, yields=False, write=None, read=None, wait=(6,), reuse=())
