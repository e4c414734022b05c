"""Claim 4: what every thread holds is what the instruction's fragment table says it must hold.

Checked by enumeration and from the tables alone, so that it does not lean on the derivation: from the
accumulator it is read off which tensor row and column the instruction writes through each of its own rows and
columns; then each operand register of each lane must hold exactly that row or column, at the k of the table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layoutgen.algebra import LinearLayout
from layoutgen.atoms import Atom
from layoutgen.proofs.claims import bases, hardware
from layoutgen.proofs.obligation import Certificate, Obligation, Refutation, Verdict

Coordinates = NDArray[np.int64]
LANES = 32


@dataclass(frozen=True)
class _Table:
    """Coordinates by [group of instructions, register, lane]; a group is one instruction of one warp."""

    first: Coordinates
    second: Coordinates


def _by_instruction(layout: LinearLayout, pack: int) -> _Table:
    """Return both coordinates of a layout by [instruction, register within it, lane].

    The instructions of a warp come first, then those of the next warp.
    """
    images = layout.table()
    registers = 1 << layout.domain.bits_of("register")
    warps = len(images) // (registers * LANES)
    by_warp = images.reshape(warps, LANES, registers // pack, pack)
    grid = by_warp.transpose(0, 2, 3, 1).reshape(-1, pack, LANES)
    low = layout.codomain.dims[1][1]
    return _Table(grid >> low, grid & (1 << low) - 1)


def _atom_table(atom: Atom, operand: str) -> _Table:
    table = _by_instruction(atom.table(operand), atom.fragment(operand).elements)
    return _Table(table.first[0], table.second[0])


def _groups(atom: Atom) -> Coordinates:
    """Return, per lane, the packed value of its free bits: which independent product it takes part in."""
    lanes = np.arange(LANES)
    group = np.zeros(LANES, dtype=np.int64)
    for position, name in enumerate(atom.free_lane_bits):
        group |= (lanes >> atom.lane_names.index(name) & 1) << position
    return group


def _index(layout: LinearLayout, pack: int, instruction: int, register: int, lane: int) -> int:
    """Return the packed hardware index of one register of one lane at one instruction."""
    registers = 1 << layout.domain.bits_of("register")
    warp, chunk = divmod(instruction, registers // pack)
    return (warp * LANES + lane) * registers + chunk * pack + register


def holds_fragment(name: str, atom: Atom, operand: str, accumulator: LinearLayout, fragment: LinearLayout) -> Verdict:
    """Check operand a or b of a block, called `name`, against the atom's table.

    `accumulator` is [block_m, block_n], `fragment` the operand's layout as it is loaded, [block_m or block_n, k].
    The maps are linear and the first mismatch is reported, so its index is a single basis.
    """
    axis = {"a": "m", "b": "n"}[operand]
    statement = f"each thread holds the {axis} and k that {atom.alias} reads from it as operand {operand}"
    obligation = Obligation(f"{name} is what the instruction wants", 4, statement)
    pack = atom.accumulator.elements
    group = _groups(atom)
    tensor = _by_instruction(accumulator, pack)
    own = _atom_table(atom, "accumulator")
    tensor_axis, own_axis = (tensor.first, own.first) if operand == "a" else (tensor.second, own.second)

    # The tensor row (column) that the instruction addresses through its own row (column), per product.
    size = atom.shape[0] if operand == "a" else atom.shape[1]
    addressed = np.full((len(tensor_axis), 1 << len(atom.free_lane_bits), size), -1, dtype=np.int64)
    # Written backwards: where elements disagree, the first one counts, and a later one is the witness.
    product = np.broadcast_to(group, own_axis.shape)
    addressed[:, product[::-1, ::-1], own_axis[::-1, ::-1]] = tensor_axis[:, ::-1, ::-1]
    again = addressed[:, product, own_axis]
    if (again != tensor_axis).any():
        at = tuple(int(i) for i in np.argwhere(again != tensor_axis)[0])
        index = _index(accumulator, pack, *at)
        side = "row" if operand == "a" else "column"
        return Refutation(
            obligation,
            "exhaustive",
            bases(accumulator, index),
            f"the accumulator of {hardware(accumulator, index)} is in {side} {tensor_axis[at]}, but the instruction "
            f"puts it into the {side} of an accumulator that is in {side} {again[at]}",
        )

    held = _by_instruction(fragment, pack)
    table = _atom_table(atom, operand)
    elements = atom.fragment(operand).elements
    wanted_axis = addressed[:, np.broadcast_to(group, table.first.shape), table.first]
    wanted_k = np.broadcast_to(table.second, wanted_axis.shape)
    wrong = (held.first[:, :elements] != wanted_axis) | (held.second[:, :elements] != wanted_k)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        index = _index(fragment, pack, *at)
        return Refutation(
            obligation,
            "exhaustive",
            bases(fragment, index),
            f"{hardware(fragment, index)} holds ({held.first[at]}, {held.second[at]}); "
            f"the instruction wants ({wanted_axis[at]}, {wanted_k[at]})",
        )
    return Certificate(obligation, "exhaustive", (f"{wrong.size} register elements compared",))
