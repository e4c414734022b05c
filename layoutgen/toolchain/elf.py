"""The little that is read from a cubin: the raw sections of an ELF64 file."""

from __future__ import annotations

import struct

from layoutgen.errors import LayoutgenError


def sections(cubin: bytes) -> dict[str, bytes]:
    """Return section name -> content. Source: System V ABI, "Object Files" (ELF64, little endian)."""
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise LayoutgenError("cubin: not a little-endian ELF64 file")
    (header_offset,) = struct.unpack_from("<Q", cubin, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, header_offset + i * entry_size) for i in range(count)]
    names_offset = headers[names_index][4]
    result = {}
    for name, kind, _, _, offset, size in headers:
        start = names_offset + name
        text = cubin[start : cubin.index(b"\0", start)].decode()
        result[text] = b"" if kind == 8 else cubin[offset : offset + size]  # 8: no bits in the file
    return result
