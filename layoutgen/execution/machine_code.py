"""From a cubin to the machine code that the CPU executes: the decoder's operands in the executor's words.

The executor and the decoder know nothing of each other. Where both the text and the encoding tell an immediate, the
encoding's 32 bits are taken and the text must agree, so that no operand is silently read as another.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from layoutgen.cpu import Source
from layoutgen.cpu.sass_code import Code, Instruction, Operand, Parameter
from layoutgen.errors import LayoutgenError
from layoutgen.sass import operand as decoded
from layoutgen.sass.program import Instruction as Decoded
from layoutgen.sass.program import decode
from layoutgen.toolchain.binaries import disassemble
from layoutgen.toolchain.elf import sections

PARAMETER_BASE, PARAMETER_INFO = 0x0A, 0x17
"""Attributes of `.nv.info.<kernel>`: where parameters begin in bank 0, and one per parameter. Read off cubins."""

_IMMEDIATE_FORMS = (2, 4)
"""Values of bits 9 to 11 of an instruction in which its bits 32 to 63 are an immediate."""
_OTHER_FIELDS = ("BRA", "CALL", "RET", "BSSY", "BAR", "SHFL", "PLOP3", "UPLOP3")
"""Opcodes whose literals lie elsewhere, for example as distances."""


@lru_cache(maxsize=16)
def read_code(cubin: bytes, kernel: str, arch: str, types: tuple[str, ...]) -> Code:
    """Decode one kernel of a cubin for execution.

    `types` are the PTX types of its parameters, in order. Raises
    LayoutgenError when the cubin and the types do not belong together, or an operand has no known form.
    """
    program = decode(kernel, arch, disassemble(cubin, kernel, arch), cubin)
    found = sections(cubin)
    offsets = parameter_offsets(found.get(f".nv.info.{kernel}", b""))
    if len(offsets) != len(types):
        raise LayoutgenError(f"cubin: {kernel} has {len(offsets)} parameters, its PTX {len(types)}")
    banks = {}
    for name, data in found.items():
        match = re.fullmatch(rf"\.nv\.constant([1-9]\d*)(?:\.{re.escape(kernel)})?", name)
        if match:
            banks[int(match[1])] = data
    return Code(
        kernel,
        arch,
        tuple(instruction(each) for each in program.instructions),
        tuple(Parameter(offset, kind) for offset, kind in zip(offsets, types, strict=True)),
        banks,
    )


def parameter_offsets(info: bytes) -> list[int]:
    """Read the byte offsets of a kernel's parameters in constant bank 0, in order, from its `.nv.info`.

    An attribute is a format byte, a number, and two bytes that are its value or, in format 4, the length of what
    follows.
    """
    base, offsets, place = 0, {}, 0
    while place + 4 <= len(info):
        layout, number = info[place], info[place + 1]
        size = int.from_bytes(info[place + 2 : place + 4], "little") if layout == 4 else 0
        content = info[place + 4 : place + 4 + size]
        if number == PARAMETER_BASE and layout == 4:
            base = int.from_bytes(content[4:6], "little")
        elif number == PARAMETER_INFO and layout == 4:
            offsets[int.from_bytes(content[4:6], "little")] = int.from_bytes(content[6:8], "little")
        place += 4 + size
    return [base + offsets[number] for number in sorted(offsets)]


def instruction(found: Decoded) -> Instruction:
    """Return a decoded instruction in the executor's words."""
    operands = [_operand(operand) for operand in found.operands]
    if found.encoding >> 9 & 7 in _IMMEDIATE_FORMS and found.opcode not in _OTHER_FIELDS:
        _take_encoded(found, operands)
    elif any(isinstance(o, decoded.Immediate) and isinstance(o.value, float) for o in found.operands):
        raise LayoutgenError(f"sass: `{found.text}` prints a float that its encoding does not hold")
    source = found.source.own if found.source is not None else None
    return Instruction(
        found.address,
        found.opcode,
        found.modifiers,
        tuple(operands),
        None if found.guard is None else _operand(found.guard),
        found.text,
        Source("", 0) if source is None else Source(source.file, source.line),
    )


def _operand(found: decoded.Operand) -> Operand:
    match found:
        case decoded.Register():
            return Operand(
                "U" if found.uniform else "R",
                found.index,
                found.negated,
                found.absolute,
                found.inverted,
                found.modifiers,
            )
        case decoded.Predicate():
            return Operand("Q" if found.uniform else "P", found.index, found.negated)
        case decoded.Immediate():
            return Operand("I", int(found.value) & 0xFFFFFFFF if isinstance(found.value, int) else 0)
        case decoded.Constant():
            return Operand(
                "C",
                found.offset,
                found.negated,
                found.absolute,
                found.inverted,
                found.modifiers,
                base=found.index,
                bank=found.bank,
            )
        case decoded.Address():
            return Operand("A", found.offset, modifiers=found.modifiers, base=found.base, uniform=found.uniform)
        case decoded.Name():
            return Operand("N", name=found.text)


def _take_encoded(found: Decoded, operands: list[Operand]) -> None:
    """Give the first immediate the 32 bits of the encoding; a pair of fp16 literals is one immediate."""
    bits = found.encoding >> 32 & 0xFFFFFFFF
    places = [n for n, operand in enumerate(found.operands) if isinstance(operand, decoded.Immediate)]
    if not places:
        return
    first = places[0]
    literal = found.operands[first]
    assert isinstance(literal, decoded.Immediate)
    packed = found.opcode.startswith("H") and places[1:2] == [first + 1]
    if packed:
        del operands[first + 1]
    elif isinstance(literal.value, int) and found.opcode[0] not in "FM":
        if literal.value & 0xFFFFFFFF != bits:
            raise LayoutgenError(f"sass: `{found.text}` prints {literal.value:#x} where its encoding holds {bits:#x}")
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            held, printed = np.array([bits], np.uint32).view(np.float32)[0], np.float32(literal.value)
        if found.opcode != "MOV" and not (held == printed or (held != held and printed != printed)):
            raise LayoutgenError(f"sass: `{found.text}` prints {literal.value} where its encoding holds {held}")
    operands[first] = Operand("I", bits)
