# SPDX-License-Identifier: Apache-2.0
"""The blocks of a trace file, as docs/trace-format.md describes them: for tests that damage one."""
import struct

HEADER = 64
BLOCK = 88
STACKS, EVENTS, SLICE, INDEX = 2, 5, 9, 13


class Block:
    def __init__(self, offset, kind, section, stored, first, count, block_id):
        self.offset, self.kind, self.section = offset, kind, section
        self.stored, self.first, self.count, self.block_id = stored, first, count, block_id

    @property
    def payload(self):
        return self.offset + BLOCK

    @property
    def end(self):
        return (self.payload + self.stored + 7) // 8 * 8


def blocks(path):
    """Every sealed block up to and with the index."""
    data = path.read_bytes()
    found, offset = [], HEADER
    while data[offset:offset + 4] == b"TDBK":
        kind, _flags, _zero, section, _sequence, stored, _raw, first, count, _sum, block_id = \
            struct.unpack_from("<BBHIIIIQIIQ", data, offset + 4)
        block = Block(offset, kind, section, stored, first, count, block_id)
        found.append(block)
        offset = block.end
    return found


def flip(source, target, offset):
    """A copy with one bit turned."""
    data = bytearray(source.read_bytes())
    data[offset] ^= 0x10
    target.write_bytes(data)
    return target


def cut(source, target, size):
    target.write_bytes(source.read_bytes()[:size])
    return target
