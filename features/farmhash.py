# SPDX-License-Identifier: Apache-2.0
"""FarmHash Fingerprint64 of many texts at once, in NumPy."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Fingerprints = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# The primes of FarmHash; all arithmetic below is modulo 2**64, as NumPy's uint64 arrays do it.
_K0 = 0xC3A5C85C97CB3127
_K1 = 0xB492B66FBE98F273
_K2 = 0x9AE16A3B2F90404F
_MODULO_64 = 2**64 - 1
_SEED = 81

# A hash of one length class takes (bytes, start of each row, length of each row).
_HashClass = Callable[[Bytes, Integers, Integers], Fingerprints]


def hash_rows(data: Bytes, starts: Integers, lengths: Integers) -> Fingerprints:
    """Return the fingerprint of each text, uint64 (texts,).

    Args:
        data: UTF-8 bytes of all texts.
        starts: Where each text begins in `data`.
        lengths: Its number of bytes.

    References:
        Geoff Pike, "FarmHash", Google 2014, https://github.com/google/farmhash:
        `Fingerprint64`, which is `farmhashna::Hash64` without a seed.
    """
    fingerprints = np.full(len(starts), _K2, np.uint64)  # what an empty text gets
    for shortest, longest, hash_class in _LENGTH_CLASSES:
        rows = np.flatnonzero((lengths >= shortest) & (lengths <= longest))
        if rows.size:
            fingerprints[rows] = hash_class(data, starts[rows], lengths[rows])
    return fingerprints


def _hash_1_to_3(data: Bytes, starts: Integers, lengths: Integers) -> Fingerprints:
    first = data[starts].astype(np.uint64)
    middle = data[starts + (lengths >> 1)].astype(np.uint64)
    last = data[starts + lengths - 1].astype(np.uint64)
    y = first + (middle << 8)
    z = lengths.astype(np.uint64) + (last << 2)
    return _shift_mix(y * _K2 ^ z * _K0) * _K2


def _hash_4_to_7(data: Bytes, starts: Integers, lengths: Integers) -> Fingerprints:
    size = lengths.astype(np.uint64)
    words = _words_at_every_byte(data, "<u4")
    head = words[starts].astype(np.uint64)
    tail = words[starts + lengths - 4].astype(np.uint64)
    return _mix_pair(size + (head << 3), tail, _K2 + size * 2)


def _hash_8_to_16(data: Bytes, starts: Integers, lengths: Integers) -> Fingerprints:
    multiplier = _K2 + lengths.astype(np.uint64) * 2
    words = _words_at_every_byte(data)
    a = words[starts] + _K2
    b = words[starts + lengths - 8]
    c = _rotate(b, 37) * multiplier + a
    d = (_rotate(a, 25) + b) * multiplier
    return _mix_pair(c, d, multiplier)


def _hash_17_to_32(data: Bytes, starts: Integers, lengths: Integers) -> Fingerprints:
    multiplier = _K2 + lengths.astype(np.uint64) * 2
    words = _words_at_every_byte(data)
    ends = starts + lengths
    a = words[starts] * _K1
    b = words[starts + 8]
    c = words[ends - 8] * multiplier
    d = words[ends - 16] * _K2
    return _mix_four(a, b, c, d, multiplier)


def _hash_33_to_64(data: Bytes, starts: Integers, lengths: Integers) -> Fingerprints:
    multiplier = _K2 + lengths.astype(np.uint64) * 2
    words = _words_at_every_byte(data)
    ends = starts + lengths
    a = words[starts] * _K2
    b = words[starts + 8]
    c = words[ends - 8] * multiplier
    d = words[ends - 16] * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    z = _mix_four(a, b, c, d, multiplier)
    e = words[starts + 16] * multiplier
    f = words[starts + 24]
    g = (y + words[ends - 32]) * multiplier
    h = (z + words[ends - 24]) * multiplier
    left = _rotate(e + f, 43) + _rotate(g, 30) + h
    return _mix_pair(left, e + _rotate(f + a, 18) + g, multiplier)


def _hash_over_64(data: Bytes, starts: Integers, lengths: Integers) -> Fingerprints:
    # Longest first: the rows that still have a whole block to read are then always a prefix.
    order = np.argsort(-lengths)
    starts, lengths = starts[order], lengths[order]
    words = _words_at_every_byte(data)
    blocks = (lengths - 1) // 64  # the last block, whole or not, is left to the final round

    seed_y = _SEED * _K1 + 113
    state = np.zeros((7, len(starts)), np.uint64)  # x, y, z, and the pairs v and w
    state[0] = words[starts] + (_SEED * _K2 & _MODULO_64)
    state[1] = seed_y & _MODULO_64
    state[2] = _shift_mix(np.full(len(starts), seed_y * _K2 + 113 & _MODULO_64, np.uint64)) * _K2

    rows_with_more_blocks_than = np.searchsorted(-blocks, -np.arange(blocks[0]))
    for block, rows in enumerate(rows_with_more_blocks_than):
        state[:, :rows] = _hash_block(words, starts[:rows] + 64 * block, state[:, :rows], _K1, 1)

    # The final round reads the last 64 bytes, which may overlap a block that was read before.
    multiplier = _K1 + ((state[2] & 0xFF) << 1)
    state[5] += ((lengths - 1) & 63).astype(np.uint64)
    state[3] += state[5]
    state[5] += state[3]
    state = _hash_block(words, starts + lengths - 64, state, multiplier, 9)
    x, y, z, v0, v1, w0, w1 = state
    left = _mix_pair(v0, w0, multiplier) + _shift_mix(y) * _K0 + z
    right = _mix_pair(v1, w1, multiplier) + x
    fingerprints = np.empty(len(starts), np.uint64)
    fingerprints[order] = _mix_pair(left, right, multiplier)
    return fingerprints


def _hash_block(
    words: Fingerprints,
    starts: Integers,
    state: Fingerprints,
    multiplier: Fingerprints | int,
    weight: int,
) -> Fingerprints:
    """Return the state of each row after 64 of its bytes."""
    x, y, z, v0, v1, w0, w1 = state
    x = _rotate(x + y + v0 + words[starts + 8], 37) * multiplier
    y = _rotate(y + v1 + words[starts + 48], 42) * multiplier
    x = x ^ w1 * weight
    y = y + v0 * weight + words[starts + 40]
    z = _rotate(z + w0, 33) * multiplier
    v = _hash_half_block(words, starts, v1 * multiplier, x + w0)
    w = _hash_half_block(words, starts + 32, z + w1, y + words[starts + 16])
    return np.stack([z, y, x, *v, *w])  # x and z change places


def _hash_half_block(
    words: Fingerprints, starts: Integers, a: Fingerprints, b: Fingerprints
) -> tuple[Fingerprints, Fingerprints]:
    fourth = words[starts + 24]
    a = a + words[starts]
    b = _rotate(b + a + fourth, 21)
    total = a + words[starts + 8] + words[starts + 16]
    return total + fourth, b + _rotate(total, 44) + a


def _mix_four(
    a: Fingerprints, b: Fingerprints, c: Fingerprints, d: Fingerprints, multiplier: Fingerprints
) -> Fingerprints:
    left = _rotate(a + b, 43) + _rotate(c, 30) + d
    return _mix_pair(left, a + _rotate(b + _K2, 18) + c, multiplier)


def _mix_pair(left: Fingerprints, right: Fingerprints, multiplier: Fingerprints) -> Fingerprints:
    mixed = _shift_mix((left ^ right) * multiplier)
    return _shift_mix((right ^ mixed) * multiplier) * multiplier


def _shift_mix(value: Fingerprints) -> Fingerprints:
    return value ^ (value >> np.uint64(47))


def _rotate(value: Fingerprints, bits: int) -> Fingerprints:
    """Rotate to the right."""
    return (value >> np.uint64(bits)) | (value << np.uint64(64 - bits))


def _words_at_every_byte(data: Bytes, word: str = "<u8") -> npt.NDArray[Any]:
    """View `data` as the little-endian words that begin at each byte, without copying."""
    kind = np.dtype(word)
    return np.ndarray(len(data) - kind.itemsize + 1, kind, buffer=data, strides=(1,))


_LENGTH_CLASSES: tuple[tuple[int, int, _HashClass], ...] = (
    (1, 3, _hash_1_to_3),
    (4, 7, _hash_4_to_7),
    (8, 16, _hash_8_to_16),
    (17, 32, _hash_17_to_32),
    (33, 64, _hash_33_to_64),
    (65, sys.maxsize, _hash_over_64),
)
