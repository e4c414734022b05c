"""The two address spaces: tensors far apart in global memory, and one shared memory for every block.

Nothing here knows an instruction set. Global addresses are bytes in a 64-bit space; each tensor has a slot
of 16 GiB of its own and lies across a 4 GiB boundary in it, so that a wrong high half of an address is an
address out of bounds. All of a slot that the tensor does not cover is guard zone: it reads as NaN and keeps
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from layoutgen.errors import LayoutgenError

Array = NDArray[Any]

_SLOT_BITS = 34
_PAGE = 256
_FILL = np.array([0xFF, 0x7F] * 8, np.uint8)
"""Memory that nobody has written: a NaN read as fp16, bf16, fp32 or fp64."""


class TensorError(LayoutgenError):
    """A tensor that cannot be laid out as asked."""


class WrittenBy(NamedTuple):
    """The launch that wrote, counted from 0 over those that had the tensor as an argument, and its instruction."""

    launch: int
    instruction: int


class Tensor:
    """A kernel argument in global memory: values, where they lie, who may read and who may write.

    `strides` are in elements, may be zero or negative for inputs, and default to row-major contiguous.
    Bytes between the elements belong to nobody: reading them is an uninitialised read, writing them an
    unowned write. `misalign` (bytes, a multiple of the element size) moves element 0 away from a 256-byte
    boundary.
    """

    def __init__(
        self, name: str, shape: Sequence[int], dtype: DTypeLike, strides: Sequence[int] | None = None,
        *, writable: bool, misalign: int = 0,
    ) -> None:  # fmt: skip
        self.name = name
        self.dtype = np.dtype(dtype)
        self.shape = tuple(int(size) for size in shape)
        self.writable = writable
        self.misalign = int(misalign)
        size = self.dtype.itemsize
        self.strides = _row_major(self.shape) if strides is None else tuple(int(step) for step in strides)
        if len(self.strides) != len(self.shape):
            raise TensorError(f"tensor {name}: {len(self.strides)} strides for shape {self.shape}")
        if self.misalign % size:
            raise TensorError(f"tensor {name}: misalign {misalign} is not a multiple of {size} bytes")
        reach = [(n - 1) * s * size for n, s in zip(self.shape, self.strides, strict=True)]
        empty = 0 in self.shape
        self.low = 0 if empty else sum(r for r in reach if r < 0)  # bytes from element 0, inclusive
        self.high = 0 if empty else sum(r for r in reach if r > 0) + size  # exclusive
        # The storage begins on a 16-byte boundary of the address space, so that any access can be a NumPy
        # view.
        self.skip = (self.misalign + self.low) % 16
        self.storage: Array = np.resize(_FILL, -(-(self.skip + self.high - self.low) // 16) * 16 + 16)
        self.owned: Array = np.zeros(self.storage.size, np.bool_)
        element: Array = np.ndarray(self.shape, self.dtype, self.storage, self.skip - self.low, self._steps)
        owned: Array = np.ndarray(self.shape, f"V{size}", self.owned, self.skip - self.low, self._steps)
        owned[...] = np.array(b"\x01" * size, f"V{size}")
        self.count = int(np.prod(self.shape, dtype=np.int64))
        distinct = int(np.count_nonzero(self.owned)) == self.count * size
        if writable and not distinct:
            raise TensorError(f"tensor {name}: strides {self.strides} let elements overlap; not for an output")
        self._element = element
        self.dense = int(np.count_nonzero(self.owned)) == self.high - self.low
        self.initialised: Array = np.zeros(self.storage.size, np.bool_)
        self.ready = False  # every owned byte is initialised
        self.writer: Array | None = np.full(self.storage.size, -1, np.int32) if writable else None
        self._launch = -1
        self._written: Array = np.full(self.storage.size if writable else 0, -1, np.int64)  # launch << 32 | instruction

    @property
    def _steps(self) -> tuple[int, ...]:
        return tuple(step * self.dtype.itemsize for step in self.strides)

    @classmethod
    def input(cls, name: str, values: ArrayLike, strides: Sequence[int] | None = None, *, misalign: int = 0) -> Tensor:
        """A tensor that holds `values` and may only be read. A zero stride wants values equal along it."""
        array = np.asarray(values)
        tensor = cls(name, array.shape, array.dtype, strides, writable=False, misalign=misalign)
        tensor.fill(array)
        return tensor

    @classmethod
    def output(
        cls, name: str, shape: Sequence[int], dtype: DTypeLike, strides: Sequence[int] | None = None,
        *, misalign: int = 0,
    ) -> Tensor:  # fmt: skip
        """A tensor to be written, filled with NaN; reading it before that is an uninitialised read."""
        return cls(name, shape, dtype, strides, writable=True, misalign=misalign)

    def fill(self, values: ArrayLike) -> None:
        """Store `values` in the elements and mark them as initialised."""
        array = np.asarray(values, self.dtype)
        self._element[...] = array
        if not np.array_equal(_bits(self._element), _bits(np.broadcast_to(array, self.shape))):
            raise TensorError(f"tensor {self.name}: elements that share an address were given different values")
        self.initialised |= self.owned
        self.ready = True

    def begin_launch(self) -> None:
        """Forget which block wrote what: that is a matter of one launch."""
        self._launch += 1
        if self.writer is not None:
            self.writer.fill(-1)

    @property
    def array(self) -> Array:
        """The elements now, as a strided read-only view."""
        view = self._element.view()
        view.flags.writeable = False
        return view

    @property
    def unwritten(self) -> int:
        """How many elements nobody has written, no thread and no `fill` (0 for inputs)."""
        if self.writer is None:
            return 0
        return int(np.count_nonzero(self.owned & ~self.initialised)) // self.dtype.itemsize

    def written_by(self, index: Sequence[int]) -> WrittenBy | None:
        """Return who wrote an element last; None when no launch did."""
        if not self.writable:
            return None
        byte = self.skip - self.low + sum(i * step for i, step in zip(index, self._steps, strict=True))
        number = int(self._written[byte])
        return None if number < 0 else WrittenBy(*divmod(number, 1 << 32))

    def __repr__(self) -> str:
        kind = "output" if self.writable else "input"
        return f"Tensor.{kind}({self.name!r}, {self.shape}, {self.dtype}, strides={self.strides})"


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= max(size, 1)
    return tuple(strides)


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(np.uint8)


@dataclass(frozen=True)
class Read:
    """What a load got: one array a vector item, and which lanes were wrong (None: none was)."""

    values: list[Array]
    outside: Array | None = None
    uninitialised: Array | None = None


@dataclass(frozen=True)
class Write:
    """Which lanes of a store were wrong (None: none was). `clash`: another block, or another lane of the same
    instruction with another value, wrote the same bytes."""

    outside: Array | None = None
    unowned: Array | None = None
    clash: Array | None = None


class GlobalMemory:
    """The tensors of a launch in one 64-bit address space."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = list(tensors)
        self._low, self._high, self._base = [], [], []
        for slot, tensor in enumerate(self.tensors):
            span = tensor.high - tensor.low
            if span >> (_SLOT_BITS - 1):
                raise TensorError(f"tensor {tensor.name}: {span} bytes do not fit a slot of 8 GiB")
            centre = ((slot + 1) << _SLOT_BITS) + (1 << (_SLOT_BITS - 1))
            pointer = centre - (tensor.low + span // 2) // _PAGE * _PAGE + tensor.misalign
            self._base.append(pointer)
            self._low.append(pointer + tensor.low)
            self._high.append(pointer + tensor.high)

    def pointer(self, tensor: Tensor) -> int:
        """The address of the tensor's element 0. Raises TensorError when it is not of this launch."""
        for base, other in zip(self._base, self.tensors, strict=True):
            if other is tensor:
                return base
        raise TensorError(f"tensor {tensor.name} is not part of this launch")

    def describe(self, address: int) -> str:
        """An address in words: `q + 128`, or `null` and the like for an address in no tensor's slot."""
        slot = (address >> _SLOT_BITS) - 1
        if 0 <= slot < len(self.tensors):
            return f"{self.tensors[slot].name} {address - self._base[slot]:+d} bytes"
        return f"address {address:#x}, in no tensor"

    def _locate(self, address: Array, width: int) -> list[tuple[int, Array | None]]:
        """(slot, which lanes) of the lanes that are inside; the lanes are None when all are."""
        low, high = int(address.min()), int(address.max())
        slot = (low >> _SLOT_BITS) - 1
        if 0 <= slot < len(self.tensors) and low >= self._low[slot] and high + width <= self._high[slot]:
            return [(slot, None)]
        parts: list[tuple[int, Array | None]] = []
        for slot in np.unique(address >> np.uint64(_SLOT_BITS)).astype(np.int64) - 1:
            if 0 <= slot < len(self.tensors) and self._high[slot] - self._low[slot] >= width:
                first, last = np.uint64(self._low[slot]), np.uint64(self._high[slot] - width)
                inside = (address >= first) & (address <= last)
                if inside.any():
                    parts.append((int(slot), np.flatnonzero(inside)))
        return parts

    def _offsets(self, slot: int, address: Array) -> Array:
        tensor = self.tensors[slot]
        return (address - np.uint64(self._low[slot] - tensor.skip)).astype(np.int64)

    def read(self, address: Array, width: int, count: int) -> Read:
        """Load `count` items of `width` bytes from every address (uint64, aligned to the whole, not empty)."""
        whole = width * count
        parts = self._locate(address, whole)
        if len(parts) == 1 and parts[0][1] is None:
            values, bad = self._read_slot(parts[0][0], address, width, count)
            return Read(values, None, bad)
        kind = f"u{width}"
        fill = np.resize(_FILL, 16)[:width].view(kind)[0]
        values = [np.full(address.size, fill, kind) for _ in range(count)]
        outside = np.ones(address.size, np.bool_)
        uninitialised = np.zeros(address.size, np.bool_)
        for slot, lanes in parts:
            assert lanes is not None
            outside[lanes] = False
            got, bad = self._read_slot(slot, address[lanes], width, count)
            for value, new in zip(values, got, strict=True):
                value[lanes] = new
            if bad is not None:
                uninitialised[lanes] = bad
        return Read(values, outside, uninitialised if uninitialised.any() else None)

    def _read_slot(self, slot: int, address: Array, width: int, count: int) -> tuple[list[Array], Array | None]:
        tensor = self.tensors[slot]
        offset = self._offsets(slot, address)
        view = tensor.storage.view(f"u{width}")
        index = offset // width
        values = [np.take(view, index + item if item else index) for item in range(count)]
        if tensor.ready and tensor.dense:
            return values, None
        bad = ~np.take(tensor.initialised, offset)
        for byte in range(1, width * count):
            bad |= ~np.take(tensor.initialised, offset + byte)
        return values, bad if bad.any() else None

    def write(self, address: Array, width: int, values: Sequence[Array], block: Array, instruction: int = -1) -> Write:
        """Store one item of `width` bytes for every array in `values`. `block` numbers the block of each
        lane, `instruction` the store."""
        whole = width * len(values)
        parts = self._locate(address, whole)
        outside = None
        if not (len(parts) == 1 and parts[0][1] is None):
            outside = np.ones(address.size, np.bool_)
        unowned = np.zeros(address.size, np.bool_)
        clash = np.zeros(address.size, np.bool_)
        for slot, lanes in parts:
            chosen = np.arange(address.size) if lanes is None else lanes
            if outside is not None:
                outside[chosen] = False
            tensor = self.tensors[slot]
            offset = self._offsets(slot, address[chosen])
            if tensor.writer is None:
                unowned[chosen] = True
                continue
            number = tensor._launch << 32 | instruction
            view = tensor.storage.view(f"u{width}")
            for item, value in enumerate(values):
                view[offset // width + item] = value[chosen]
            for item, value in enumerate(values):  # another lane may have had the last word
                clash[chosen] |= view[offset // width + item] != value[chosen]
            for byte in range(whole):
                at = offset + byte
                if not tensor.dense:
                    unowned[chosen] |= ~tensor.owned[at]
                before = tensor.writer[at]
                clash[chosen] |= (before >= 0) & (before != block[chosen])
                tensor.writer[at] = block[chosen]
                tensor._written[at] = number
                clash[chosen] |= tensor.writer[at] != block[chosen]
                tensor.initialised[at] = True
        return Write(outside, unowned if unowned.any() else None, clash if clash.any() else None)


class SharedMemory:
    """`blocks` shared memories of `size` bytes each, as one array; nothing survives from one launch to the
    next."""

    def __init__(self, blocks: int, size: int) -> None:
        self.size = size
        self.stride = -(-size // 16) * 16 + 16
        self.storage: Array = np.resize(_FILL, blocks * self.stride)
        self._views = {width: self.storage.view(f"u{width}") for width in (1, 2, 4, 8)}

    def read(self, block: Array, address: Array, width: int, count: int) -> list[Array]:
        """`count` items of `width` bytes a lane. Pre: every access is aligned and inside (`watch` has
        checked)."""
        index = (block * self.stride + address) // width
        view = self._views[width]
        return [np.take(view, index + item if item else index) for item in range(count)]

    def write(self, block: Array, address: Array, width: int, values: Sequence[Array]) -> None:
        """Store one item of `width` bytes for every array in `values`; of clashing lanes the last wins."""
        index = (block * self.stride + address) // width
        view = self._views[width]
        for item, value in enumerate(values):
            view[index + item] = value
