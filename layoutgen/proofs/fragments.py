"""Claim 4: what every thread holds is what the instruction's fragment table says it must hold.

Checked by enumeration and from the tables alone, so that it does not lean on the derivation: from the
accumulator it is read off which tensor row and column the instruction writes through each of its own rows and
columns; then each operand register of each lane must hold exactly that row or column, at the k of the table. A free
lane bit that the arrangement puts on k adds its own bit there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layoutgen.algebra import LinearLayout
from layoutgen.algebra.space import LANES
from layoutgen.proofs.claims import bases, hardware
from layoutgen.proofs.obligation import Certificate, Obligation, Refutation, Verdict
from layoutgen.tiling import Unit

Coordinates = NDArray[np.int64]


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
    (_, high), (_, low) = layout.codomain.dims[-2:]
    return _Table(grid >> low & (1 << high) - 1, grid & (1 << low) - 1)


def _atom_table(unit: Unit, operand: str) -> _Table:
    table = _by_instruction(unit.atom.table(operand), unit.atom.fragment(operand).elements)
    return _Table(table.first[0], table.second[0])


def _groups(unit: Unit) -> Coordinates:
    """Return, per lane, the packed value of its free bits: which independent product it takes part in."""
    lanes = np.arange(LANES)
    group = np.zeros(LANES, dtype=np.int64)
    for position, name in enumerate(unit.atom.free_lane_bits):
        group |= (lanes >> unit.atom.lane_names.index(name) & 1) << position
    return group


def _steps(unit: Unit, own_k: Coordinates, group: Coordinates) -> Coordinates:
    """Return the k of the unit: that of the instruction, with the bits of its product put in where the places say."""
    result = own_k
    for name, _, position in sorted((place for place in unit.places if place[1] == "k"), key=lambda place: place[2]):
        bit = group >> unit.atom.free_lane_bits.index(name) & 1
        result = (result >> position << position + 1) | bit << position | result & (1 << position) - 1
    return result


def _index(layout: LinearLayout, pack: int, instruction: int, register: int, lane: int) -> int:
    """Return the packed hardware index of one register of one lane at one instruction."""
    registers = 1 << layout.domain.bits_of("register")
    warp, chunk = divmod(instruction, registers // pack)
    return (warp * LANES + lane) * registers + chunk * pack + register


def holds_fragment(name: str, unit: Unit, operand: str, accumulator: LinearLayout, fragment: LinearLayout) -> Verdict:
    """Check operand a or b of a block, called `name`, against the atom's table.

    `accumulator` is [block_m, block_n], with the partial sums in front if there are any; `fragment` is the operand's
    layout as it is loaded, [block_m or block_n, k]. Of an operand that is cut into parts it is the first one; part p is
    the same layout k further along. The maps are linear and the first mismatch is reported, so its index is a single
    basis.
    """
    atom = unit.atom
    axis = {"a": "m", "b": "n"}[operand]
    statement = f"each thread holds the {axis} and k that {atom.alias} reads from it as operand {operand}"
    obligation = Obligation(f"{name} is what the instruction wants", 4, statement)
    pack = atom.accumulator.elements
    group = _groups(unit)
    tensor = _by_instruction(accumulator, pack)
    own = _atom_table(unit, "accumulator")
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
    table = _atom_table(unit, operand)
    elements = min(pack, atom.fragment(operand).elements)
    compared = 0
    for part, first_k in enumerate(unit.parts(operand)):
        chunk = slice(part * elements, (part + 1) * elements)
        product = np.broadcast_to(group, table.first[chunk].shape)
        wanted_axis = addressed[:, product, table.first[chunk]]
        wanted_k = np.broadcast_to(_steps(unit, table.second[chunk], product), wanted_axis.shape)
        held_k = held.second + first_k
        wrong = (held.first[:, :elements] != wanted_axis) | (held_k[:, :elements] != wanted_k)
        compared += wrong.size
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            index = _index(fragment, pack, *at)
            where = f"{hardware(fragment, index)} of part {part}" if part else hardware(fragment, index)
            return Refutation(
                obligation,
                "exhaustive",
                bases(fragment, index),
                f"{where} holds ({held.first[at]}, {held_k[at]}); "
                f"the instruction wants ({wanted_axis[at]}, {wanted_k[at]})",
            )
    return Certificate(obligation, "exhaustive", (f"{compared} register elements compared",))


def sums_partition(name: str, unit: Unit, accumulator: LinearLayout) -> Verdict:
    """Check that the partial sums of an accumulator element take every k of a step, each once.

    `accumulator` is [partial sums, block_m, block_n]. Lanes of one instruction that write the same row and column must
    differ in their partial sum exactly where they differ in the bits that the arrangement puts on k.
    """
    obligation = Obligation(f"the partial sums of {name} add up", 4, "each k of a step is in exactly one partial sum")
    group = _groups(unit)
    placed = [unit.atom.free_lane_bits.index(free) for free in unit.placed("k")]
    wanted = sum((group >> bit & 1) << position for position, bit in enumerate(placed))
    rows_columns = sum(bits for _, bits in accumulator.codomain.dims[-2:])
    registers = 1 << accumulator.domain.bits_of("register")
    held = accumulator.table().reshape(-1, LANES, registers) >> rows_columns
    wrong = held != np.asarray(wanted)[None, :, None]
    if wrong.any():
        warp, lane, register = (int(i) for i in np.argwhere(wrong)[0])
        index = (warp * LANES + lane) * registers + register
        return Refutation(
            obligation,
            "exhaustive",
            bases(accumulator, index),
            f"{hardware(accumulator, index)} holds partial sum {held[warp, lane, register]}; "
            f"its k are those of partial sum {np.asarray(wanted)[lane]}",
        )
    sums = unit.partial_sums
    return Certificate(obligation, "exhaustive", (f"{sums} partial sums of {unit.shape[2] // sums} k each",))
