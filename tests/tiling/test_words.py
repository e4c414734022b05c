"""Operands as words: every thread hands over the elements that the instruction wants, two a register."""

import itertools

import numpy as np
import pytest

from layoutgen.algebra import LinearLayout
from layoutgen.atoms import CATALOGUE, atom
from layoutgen.errors import LayoutgenError
from layoutgen.tiling import derive
from layoutgen.tiling.words import Words, gather_neighbours, oriented, paired, runs_along

ALONG = tuple(itertools.product("km", "kn"))


def tiling(along_a, along_b, block_m=64, block_n=64, warps=(1, 1), arrangement="n2,m2"):
    made = derive(oriented(atom("m8n8k4"), along_a, along_b), block_m, block_n, warps, arrangement)
    for operand, along in (("a", along_a), ("b", along_b)):
        made = made if along == "k" else gather_neighbours(made, operand, 8)
    return made


@pytest.mark.parametrize(("along_a", "along_b"), ALONG)
def test_the_form_of_the_atom_follows_the_memory(along_a, along_b):
    found = oriented(atom("m8n8k4"), along_a, along_b)
    assert found in CATALOGUE
    assert (runs_along(found, "a"), runs_along(found, "b")) == (along_a, along_b)
    assert oriented(found, "k", "k") is atom("m8n8k4")


@pytest.mark.parametrize(("along_a", "along_b"), ALONG)
@pytest.mark.parametrize("warps", [(1, 1), (2, 1), (2, 2)])
def test_words_multiply_as_the_instruction_does(along_a, along_b, warps):
    """The oracle multiplies with words alone: what register r of a thread holds is what accumulator r is given."""
    words = Words(tiling(along_a, along_b, warps=warps))
    made = words.tiling
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (64, 4)), rng.integers(-3, 4, (64, 4))
    operands = {}
    for name, matrix, along in (("a", a, along_a), ("b", b, along_b)):
        fragment, relabelling = words.fragment(name), words.relabelling(name)
        pairs = matrix.reshape(64, 2, 2) if along == "k" else matrix.reshape(32, 2, 4).swapaxes(1, 2)
        assert fragment.shape == pairs.shape[:2]
        split = pairs.reshape(*relabelling.split, 2)
        order = (*relabelling.order, len(relabelling.order))
        operands[name] = np.broadcast_to(
            split.transpose(order).reshape(*relabelling.shape, 2), (*words.shape, 2)
        ).reshape(-1, 2)
    product = np.zeros((64, 64), dtype=np.int64)
    table = words.grouped.table()
    held = {name: operands[name][table] for name in operands}
    for group in _lanes(made):
        _multiply(made, product, held, table, group)
    assert (product == a @ b.T).all()


def _lanes(made):
    """Yield the threads that one quadpair of one instruction consists of, as packed hardware indices by thread."""
    registers = 1 << made.accumulator.domain.bits_of("register")
    for warp in range(made.num_warps):
        for chunk in range(registers // made.pack):
            for quadpair in range(4):
                threads = [quadpair * 4 + low + 16 * high for high in (0, 1) for low in range(4)]
                yield [((warp * 32 + lane) * registers) + chunk * made.pack for lane in threads]


def _multiply(made, product, held, table, group):
    """Compute an 8x8x4 product from the PTX tables, written out by hand."""
    forms = {name: runs_along(made.atom, name) for name in "ab"}
    matrices = {}
    for name in "ab":
        matrix = np.zeros((8, 4), dtype=np.int64)
        for thread, start in enumerate(group):
            elements = [held[name][start + register][half] for register in (0, 2) for half in (0, 1)]
            for i, element in enumerate(elements):
                if forms[name] == "k":
                    matrix[thread, i] = element
                else:
                    matrix[i + 4 * (thread >> 2), thread & 3] = element
        matrices[name] = matrix
    result = matrices["a"] @ matrices["b"].T
    for thread, start in enumerate(group):
        a0, a1, b = thread & 1, thread >> 1 & 1, thread >> 2
        for v in range(8):
            row = a0 + 2 * (v >> 1 & 1) + 4 * b
            column = (v & 1) + 2 * a1 + 4 * (v >> 2)
            place = np.unravel_index(table[start + v], (64, 64))
            product[place] += result[row, column]


def test_words_are_pairs():
    elements = LinearLayout.from_bases({"register": [[1, 0], [0, 1], [2, 0]], "lane": [[4, 0]]}, (8, 2))
    words = paired(elements)
    assert words.shape == (4, 2)
    assert words.bases["register"] == [[0, 0], [0, 1], [1, 0]]


def test_pairs_that_are_no_neighbours_are_refused():
    with pytest.raises(LayoutgenError, match="register 0 must move the lowest bit of one coordinate"):
        paired(LinearLayout.from_bases({"register": [[0, 2], [0, 1]]}, (1, 4)))


def test_too_few_neighbours_are_refused():
    made = derive(atom("m8n8k4.row.row"), 16, 32, (1, 2), "m2,n2")
    with pytest.raises(
        LayoutgenError, match=r"block_n = 32: a thread holds 4 neighbours of b, .* nearest legal value is 64"
    ):
        gather_neighbours(made, "b", 8)


def test_an_atom_without_the_form_is_refused():
    with pytest.raises(LayoutgenError, match="m16n8k8: the catalogue has no form of it"):
        oriented(atom("m16n8k8"), "m", "n")
