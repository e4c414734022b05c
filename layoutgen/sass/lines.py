"""Source lines of machine code, from the cubin's own line table.

nvdisasm does not print lines for raw code, which is all that it decodes for sm_70, so the table is read here: DWARF
version 2, section 6.2, with the two extended opcodes by which ptxas says that a function was inlined (0x90: context,
name; 0x91: a function's name). What 0x90 carries was read off tables that ptxas 12.9 wrote: the number of the row of
the table, from 1 on, that describes the call, or 0 outside inlined functions. The tests hold it to the PTX's own lines.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from layoutgen.errors import LayoutgenError

INLINED_CALL = 0x90


@dataclass(frozen=True)
class SourceLine:
    """A place in a source file; `inlined_at` is where the call stands, when the line lies in an inlined function."""

    file: str
    line: int
    inlined_at: SourceLine | None = None

    @property
    def outermost(self) -> SourceLine:
        """The line of the kernel itself: the call, when the line lies in a function that was inlined."""
        return self if self.inlined_at is None else self.inlined_at.outermost

    @property
    def own(self) -> SourceLine:
        """The innermost line in the kernel's own file: functions of other files give way to the line that calls them.

        This is the line by which the executor counts.
        """
        line, kernel_file = self, self.outermost.file
        while line.file != kernel_file and line.inlined_at is not None:
            line = line.inlined_at
        return line

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" in {self.inlined_at}" if self.inlined_at else "")


@dataclass
class _State:
    """The registers of the line number program, and the rows that it made."""

    address: int = 0
    file: int = 1
    line: int = 1
    context: int = 0
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)

    def emit(self) -> None:
        self.rows.append((self.address, self.file, self.line, self.context))


class _Reader:
    def __init__(self, data: bytes, offset: int = 0) -> None:
        self.data, self.offset = data, offset

    def take(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self.data, self.offset)
        self.offset += struct.calcsize(layout)
        return int(value)

    def leb(self, signed: bool = False) -> int:
        value = shift = 0
        while True:
            byte = self.take("<B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        return value - (1 << shift) if signed and byte & 0x40 else value

    def text(self) -> str:
        end = self.data.index(b"\0", self.offset)
        value = self.data[self.offset : end].decode()
        self.offset = end + 1
        return value


def line_table(data: bytes) -> dict[int, SourceLine]:
    """Return address -> the source line from there on, for the content of `.debug_line` of one kernel's cubin."""
    reader = _Reader(data)
    end = reader.take("<I") + 4
    version = reader.take("<H")
    if version != 2:
        raise LayoutgenError(f"line table: DWARF version {version}; ptxas is known to write version 2")
    program = reader.take("<I") + reader.offset
    step, _, line_base, line_range, opcode_base = (reader.take(kind) for kind in ("<B", "<B", "<b", "<B", "<B"))
    lengths = [0] + [reader.take("<B") for _ in range(opcode_base - 1)]
    while reader.text():
        pass  # the folders; files are known by their names
    files = [""]
    while name := reader.text():
        files.append(name)
        for _ in range(3):
            reader.leb()
    reader.offset = program
    state = _State()
    while reader.offset < end:
        opcode = reader.take("<B")
        if opcode >= opcode_base:
            advance, lines = divmod(opcode - opcode_base, line_range)
            state.address += advance * step
            state.line += line_base + lines
            state.emit()
        elif opcode == 0:
            _extended(reader, state)
        else:
            _standard(opcode, reader, state, step, (255 - opcode_base) // line_range, lengths)
    return _lines(state.rows, files)


def _extended(reader: _Reader, state: _State) -> None:
    size = reader.leb()
    following = reader.offset + size
    kind = reader.take("<B")
    if kind == 1:  # end of sequence: the code has ended
        state.context = 0
    elif kind == 2:
        state.address = reader.take("<Q")
    elif kind == INLINED_CALL:
        state.context = reader.leb()
    reader.offset = following


def _standard(opcode: int, reader: _Reader, state: _State, step: int, constant: int, lengths: list[int]) -> None:
    if opcode == 1:
        state.emit()
    elif opcode == 2:
        state.address += reader.leb() * step
    elif opcode == 3:
        state.line += reader.leb(signed=True)
    elif opcode == 4:
        state.file = reader.leb()
    elif opcode == 8:
        state.address += constant * step
    elif opcode == 9:
        state.address += reader.take("<H")
    else:
        for _ in range(lengths[opcode]):
            reader.leb()


def _lines(rows: list[tuple[int, int, int, int]], files: list[str]) -> dict[int, SourceLine]:
    """Resolve contexts: the number of the row (from 1) that describes the call."""

    def resolve(number: int, depth: int) -> SourceLine:
        _, file, line, context = rows[number]
        outer = resolve(context - 1, depth + 1) if 0 < context <= len(rows) and depth < 16 else None
        return SourceLine(files[file] if file < len(files) else "?", line, outer)

    return {row[0]: resolve(number, 0) for number, row in enumerate(rows)}
