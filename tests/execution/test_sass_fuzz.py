"""PTX snippets, assembled at -O0 to -O3: machine code against the PTX executor, and both against NumPy."""

import numpy as np
import pytest

from layoutgen.errors import LayoutgenError
from tests.execution.bundles import bundle, execute_ptx, execute_sass
from tests.execution.snippets import FAMILIES, LEVELS, operands

THREADS = 128
MISCOMPILED = (
    "mul.f32 %x0, %a, 0f07800000; mul.f32 %x1, %b, 0f07800000; mad.lo.u32 %x2, %x0, 8, 0x8000;"
    " mad.lo.u32 %x3, %x1, 8, 0x8000; prmt.b32 %o, %x2, %x3, 0x7632;"
)
"""What ptxas 12.9 loses the operands of: 2^-112 p, times 8 plus 0x8000 as an integer, and the high halves of two."""
WITHOUT_PRODUCTS = MISCOMPILED.replace("mul.f32 %x0, %a, 0f07800000", "ex2.approx.ftz.f32 %x0, %a").replace(
    "mul.f32 %x1, %b, 0f07800000", "ex2.approx.ftz.f32 %x1, %b"
)


def differing(family, arch, flags, seed, fill=0):
    """The names of the snippets of which any element differs between PTX and machine code."""
    bodies = [body for body, _ in FAMILIES[family].values()]
    inputs = operands(THREADS, seed)
    with np.errstate(all="ignore"):
        want = execute_ptx(bundle(bodies, arch), inputs, len(bodies))
        got = execute_sass(bundle(bodies, arch), arch, flags, inputs, len(bodies), fill)
    return [name for name, a, b in zip(FAMILIES[family], want, got, strict=True) if (a != b).any()]


WITH_FORMULAS = [family for family, table in FAMILIES.items() if any(formula for _, formula in table.values())]


@pytest.mark.parametrize("family", WITH_FORMULAS)
def test_ptx_is_what_numpy_computes(family):
    inputs = operands(THREADS, 1)
    table = {name: (body, formula) for name, (body, formula) in FAMILIES[family].items() if formula is not None}
    got = execute_ptx(bundle([body for body, _ in table.values()]), inputs, len(table))
    for (name, (_, formula)), result in zip(table.items(), got, strict=True):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(result, formula(*inputs).astype(np.uint32), name)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_machine_code_does_what_its_ptx_does(family, level):
    assert differing(family, "sm_70", (level,), seed=2, fill=1) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_turing_does_what_its_ptx_does(family):
    assert differing(family, "sm_75", ("-O3",), seed=3) == []


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4, 9))
@pytest.mark.parametrize("arch", ["sm_70", "sm_75"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_machine_code_does_what_its_ptx_does_on_more_inputs(family, level, arch, seed):
    assert differing(family, arch, (level,), seed, fill=seed % 2) == []


@pytest.mark.parametrize("arch", ["sm_70", "sm_75"])
@pytest.mark.parametrize(("level", "wrong"), [("-O0", False), ("-O1", False), ("-O2", True), ("-O3", True)])
def test_the_known_miscompile_is_seen_where_it_happens(level, wrong, arch):
    inputs = [np.random.default_rng(n).random(THREADS).astype(np.float32).view(np.uint32) for n in range(3)]
    ptx = bundle([MISCOMPILED, WITHOUT_PRODUCTS], arch)
    want, got = execute_ptx(ptx, inputs, 2), execute_sass(ptx, arch, (level,), inputs, 2)
    assert bool((want[0] != got[0]).any()) == wrong
    np.testing.assert_array_equal(want[1], got[1], "without products ptxas is right")


def test_a_form_that_nobody_knows_stops_the_run_with_its_text():
    ptx = bundle(["cvt.rz.f16.f32 %h0, %a; mov.b32 %o, {%h0, %h0};"])
    with pytest.raises(LayoutgenError, match=r"HADD2.*R\d+\.F32"):
        execute_sass(ptx, "sm_70", ("-O3",), operands(THREADS, 0), 1)


def test_inputs_reach_what_a_wrong_semantics_would_get_wrong(monkeypatch):
    """Mutants of the executor that reading would not find, each of which some snippet must see."""
    from layoutgen.cpu import sass_bits, sass_decode, sass_integer

    def without_wrap(instruction, known):
        step = sass_bits.decode_shf(instruction, known)
        return (lambda _: None) if "HI" in instruction.modifiers and "U64" in instruction.modifiers else step

    monkeypatch.setitem(sass_decode.DECODERS, "SHF", without_wrap)
    assert "shl.b64" in differing("bits", "sm_70", ("-O3",), seed=2)
    monkeypatch.undo()
    monkeypatch.setattr(sass_integer, "_wide_source", lambda known, source, i: _careless(known, source, i))
    assert "sub.s64" in differing("integer", "sm_70", ("-O3",), seed=2)


def _careless(known, source, instruction):
    """A negated source as its negative modulo 2^32: loses the carry of zero."""
    read = known.integer(source, instruction)
    return lambda machine: read(machine).astype(np.uint64)
