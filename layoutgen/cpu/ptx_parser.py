"""PTX text -> Program: what a kernel is, before anything says what it does.

The grammar is the part of the PTX ISA that Triton 3.8 and 3.9 emit for sm_70, plus scopes in inline
assembly. `.loc` directives are followed through `inlined_at`, so that every instruction knows a line of the
kernel's own file, even where it was inlined from Triton's library.
"""

from __future__ import annotations

import re
from functools import lru_cache

from layoutgen.cpu.ptx_program import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Parameter,
    Program,
    PtxError,
    Register,
    Sink,
    Special,
    Symbol,
    UnsupportedInstructionError,
    Vector,
)
from layoutgen.cpu.ptx_types import BITS
from layoutgen.cpu.source import Source

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r"\.file\s+(\d+)\s+\"([^\"]*)\"(?:\s+\"([^\"]*)\")?")
_REG = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.S)
_PARAM = re.compile(r"\.param\s+\.(\w+)((?:\s+\.\w+(?:\s+\d+)?)*)\s+([\w$]+)(\[\d+\])?")
_SHARED = re.compile(
    r"(\.extern\s+)?(?:\.visible\s+)?\.shared\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?"
)
_LABEL = re.compile(r"([\w$]+):")
_NUMBER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|\d+)U?$")
_HEXFLOAT = re.compile(r"0([fFdD])([0-9a-fA-F]+)$")


@lru_cache(maxsize=16)
def parse_ptx(text: str, entry: str | None = None) -> Program:
    """Read the kernel `entry` (the only one by default) out of PTX `text`.

    Raises PtxError for text that is not such PTX.
    """
    files = {int(m[1]): (m[2] if not m[3] else m[3]) for m in _FILE.finditer(text)}
    target = re.search(r"^\s*\.target\s+(\w+)", text, re.M)
    entries = list(re.finditer(r"\.entry\s+([\w$]+)\s*\(", text))
    if entry is not None:
        entries = [m for m in entries if m[1] == entry]
    if len(entries) != 1:
        raise PtxError(f"parse_ptx: {len(entries)} kernels named {entry or 'anything'}; exactly one is wanted")
    start = entries[0]
    close = text.index(")", start.end())
    parameters = _parameters(text[start.end() : close])
    opening = text.index("{", close)
    threads = re.search(r"\.reqntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", text[close:opening])
    count = 0
    if threads:
        count = int(threads[1]) * int(threads[2] or 1) * int(threads[3] or 1)
    body = _Body(files, text.count("\n", 0, opening) + 1)
    for declaration in _SHARED.finditer(_COMMENT.sub("", text[: start.start()])):
        body.declare_shared(declaration)
    body.read(text, opening + 1)
    body.finish()
    return Program(
        start[1], target[1] if target else "", tuple(body.instructions), body.labels, body.registers,
        parameters, body.shared, body.shared_bytes, body.dynamic, count,
    )  # fmt: skip


def _parameters(text: str) -> tuple[Parameter, ...]:
    parameters = []
    offset = 0
    for match in _PARAM.finditer(text):
        if match[4] or match[1] not in BITS:
            raise PtxError(f"parse_ptx: parameter {match[0].strip()!r} is an aggregate; only scalars are known")
        size = BITS[match[1]] // 8
        offset = -(-offset // size) * size
        parameters.append(Parameter(match[3], match[1], offset))
        offset += size
    return tuple(parameters)


class _Body:
    """Reads the statements between a kernel's braces."""

    def __init__(self, files: dict[int, str], line: int) -> None:
        self.files, self.line = files, line
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, int] = {}
        self.ranges: dict[str, tuple[int, int]] = {}  # prefix -> (count, bits)
        self.scopes: list[dict[str, str]] = []
        self.shared: dict[str, int] = {}
        self.shared_bytes = 0
        self.externs: list[tuple[str, int]] = []
        self.dynamic = False
        self.parents: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        self.main_file = 0
        self.source = Source("", 0)
        self.scope_count = 0

    # Statements -------------------------------------------------------------------------------------------

    def read(self, text: str, position: int) -> None:
        depth = 1
        while depth:
            position = self._skip(text, position)
            if position >= len(text):
                raise PtxError("parse_ptx: the kernel's closing brace is missing")
            if text[position] == "{":
                depth += 1
                self.scopes.append({})
                self.scope_count += 1
                position += 1
            elif text[position] == "}":
                depth -= 1
                if self.scopes:
                    self.scopes.pop()
                position += 1
            elif text.startswith((".loc\t", ".loc ", ".file"), position):
                end = text.find("\n", position)
                self._loc(text[position:end])
                position = end
            elif text.startswith(".pragma", position):
                position = text.index(";", position) + 1
            else:
                label = _LABEL.match(text, position)
                if label:
                    self.labels[label[1]] = len(self.instructions)
                    position = label.end()
                    continue
                end = text.find(";", position)
                if end < 0:
                    raise PtxError(f"parse_ptx: line {self.line}: a statement without an end")
                statement = text[position:end]
                self._statement(" ".join(_COMMENT.sub(" ", statement).split()))
                self.line += statement.count("\n")
                position = end + 1

    def _skip(self, text: str, position: int) -> int:
        while position < len(text):
            if text[position] == "\n":
                self.line += 1
                position += 1
            elif text[position] in " \t\r;":
                position += 1
            elif text.startswith("//", position):
                position = text.find("\n", position)
            elif text.startswith("/*", position):
                end = text.find("*/", position) + 2
                self.line += text.count("\n", position, end)
                position = end
            else:
                break
        return position

    def _loc(self, text: str) -> None:
        match = _LOC.match(text)
        if not match:
            return
        here = (int(match[1]), int(match[2]), int(match[3]))
        self.main_file = self.main_file or here[0]
        if match[4]:
            self.parents[here] = (int(match[4]), int(match[5]), int(match[6]))
        else:
            self.parents.pop(here, None)
        seen = set()
        while here[0] != self.main_file and here in self.parents and here not in seen:
            seen.add(here)
            here = self.parents[here]
        name = self.files.get(here[0], f"file {here[0]}")
        if here[1] or not self.source.line:  # line 0 means "no particular line": keep the last one
            self.source = Source(name.rsplit("/", 1)[-1], here[1])

    def declare_shared(self, match: re.Match[str]) -> None:
        if match[1] is not None:
            self.externs.append((match[4], int(match[2] or 1)))
            return
        align = int(match[2] or BITS[match[3]] // 8)
        self.shared_bytes = -(-self.shared_bytes // align) * align
        self.shared[match[4]] = self.shared_bytes
        self.shared_bytes += BITS[match[3]] // 8 * int(match[5] or 1)

    def _statement(self, statement: str) -> None:
        register = _REG.match(statement)
        if register:
            self._declare(register[1], register[2])
            return
        shared = _SHARED.match(statement)
        if shared:
            self.declare_shared(shared)
            return
        if statement.startswith("."):
            raise UnsupportedInstructionError(statement)
        guard = None
        rest = statement
        if statement.startswith("@"):
            prefix, _, rest = statement.partition(" ")
            name = prefix[1:]
            guard = Register(self._resolve(name.lstrip("!")), name.startswith("!"))
        opcode, _, arguments = rest.strip().partition(" ")
        operands = tuple(self._operand(part) for part in _split(arguments)) if arguments.strip() else ()
        self.instructions.append(
            Instruction(tuple(opcode.split(".")), operands, guard, statement, self.line, self.source)
        )

    def _declare(self, kind: str, names: str) -> None:
        for name in (part.strip() for part in names.split(",")):
            many = re.fullmatch(r"([%\w$]+)<(\d+)>", name)
            if many:
                self.ranges[many[1]] = (int(many[2]), BITS[kind])
            elif self.scopes:
                self.scopes[-1][name] = f"{name}@{self.scope_count}"
                self.registers[f"{name}@{self.scope_count}"] = BITS[kind]
            else:
                self.registers[name] = BITS[kind]

    # Operands ---------------------------------------------------------------------------------------------

    def _resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in self.registers:
            return name
        prefix = name.rstrip("0123456789")
        if prefix in self.ranges and prefix != name:
            count, bits = self.ranges[prefix]
            if int(name[len(prefix) :]) < count:
                self.registers[name] = bits
                return name
        raise PtxError(f"parse_ptx: line {self.line}: register {name} is not declared")

    def _operand(self, text: str) -> Operand:
        text = text.strip()
        if text == "_":
            return Sink()
        if text.startswith("{"):
            return Vector(tuple(self._operand(part) for part in _split(text[1:-1])))
        if text.startswith("["):
            return self._address(text[1:-1].strip())
        if "|" in text:
            first, second = (Register(self._resolve(part.strip())) for part in text.split("|"))
            return Pair(first, second)
        number = self._number(text)
        if number is not None:
            return number
        negated = text.startswith("!")
        name = text.lstrip("!").strip()
        try:
            return Register(self._resolve(name), negated)
        except PtxError:
            if name.startswith("%"):
                if re.fullmatch(r"%[a-z]+\d+", name) and name[:-1].rstrip("0123456789") in self.ranges:
                    raise
                return Special(name)
            return Symbol(name)

    def _number(self, text: str) -> Immediate | None:
        literal = _HEXFLOAT.match(text)
        if literal:
            return Immediate(int(literal[2], 16), 32 if literal[1] in "fF" else 64)
        if _NUMBER.match(text):
            digits = text.rstrip("U")
            sign = -1 if digits.startswith("-") else 1
            digits = digits.lstrip("+-")
            octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
            return Immediate(sign * int(digits, 8 if octal else 0))
        return None

    def _address(self, text: str) -> Address:
        match = re.fullmatch(r"([%\w$@]+)\s*(?:\+\s*(-?\s*\w+))?", text)
        if not match:
            raise PtxError(f"parse_ptx: line {self.line}: address [{text}] cannot be read")
        offset = int(match[2].replace(" ", ""), 0) if match[2] else 0
        number = self._number(match[1])
        if number is not None:
            return Address(None, number.value + offset)
        base = self._operand(match[1])
        if not isinstance(base, (Register, Symbol)):
            raise PtxError(f"parse_ptx: line {self.line}: address [{text}] cannot be read")
        return Address(base, offset)

    def finish(self) -> None:
        self.dynamic = bool(self.externs)
        for name, align in self.externs:  # dynamic shared memory follows the static variables
            self.shared[name] = -(-self.shared_bytes // align) * align
        for instruction in self.instructions:
            if instruction.op[0] == "bra":
                target = instruction.operands[0]
                if not isinstance(target, Symbol) or target.name not in self.labels:
                    raise PtxError(f"parse_ptx: line {instruction.ptx_line}: no label for {instruction.text!r}")


def _split(text: str) -> list[str]:
    """Split at commas outside braces and brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
