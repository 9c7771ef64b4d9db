# SPDX-License-Identifier: Apache-2.0
"""The exact text of an id, and its 64-bit fingerprint: the same number offline and in the graph."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Fingerprints = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# (text, fingerprint of its UTF-8 bytes): every length class and both ends of each, in bytes:
# 0, 1-3, 4-7, 8-16, 17-32, 33-64, and over 64 with one or more whole blocks.
TEST_VECTORS: tuple[tuple[str, int], ...] = (
    ("", 0x9AE16A3B2F90404F),
    ("7", 0x8831601F30043498),
    ("é", 0x099E89E5ECBB4CC1),
    ("日", 0x5FE4A44344F8672C),
    ("1234", 0x0C3FA0B46E8ADCAE),
    ("user_42", 0x2672E5CBABCBFF31),
    ("12345678", 0x2F99D2664A0FB6EA),
    ("😀🛒", 0x669F94C2D543FEB3),
    ("1844674407370955", 0xF2DF4593234945ED),
    ("46116860184273879", 0x0AD1350A620E406A),
    ("18446744073709551615", 0xF000D2606CE55E51),
    ("4f1c2a9e7b3d4d0a8c6e5f2b1a0d9c8e", 0x3E119F68DF4F3EE0),
    ("b7e23ec29af22b0b4e41da31e868d5722", 0x3D538F27E93A7FBC),
    ("北京市朝阳区建国路八十七号", 0x0845D7EA6AF07588),
    ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 0x563675E84783404C),
    ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b8550", 0xA3773E23F9C3F7F9),
    (
        "https://shop.example/catalogue/shoes?colour=dark%20blue&size=42&sort=price_ascending",
        0x7CF510C4E022EA88,
    ),
    (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        0x38F055F39516EBC8,
    ),
    (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        "0",
        0x8EB4BB55A1476026,
    ),
    (
        "zażółć gęślą jaźń, "
        "pchnąć w tę łódź jeża lub ośm skrzyń fig; "
        "съешь ещё этих мягких французских булок, да выпей чаю",
        0xD9D0F8702E07C88E,
    ),
)

LARGEST_BUCKETS = 2**63 - 1  # the attribute of TensorFlow's op is a signed 64-bit integer
LARGEST_EXACT_FLOAT = 2**53  # above it, float64 no longer tells neighbouring integers apart

# The primes of FarmHash; all arithmetic below is modulo 2**64, as NumPy's uint64 arrays do it.
_K0 = 0xC3A5C85C97CB3127
_K1 = 0xB492B66FBE98F273
_K2 = 0x9AE16A3B2F90404F
_MODULO_64 = 2**64 - 1
_SEED = 81
_ROWS_AT_A_TIME = 1 << 14  # temporaries of 128 KiB stay in the cache


def canonical_text(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Writes ids as the text that vocabularies and hashes see.

    Text stays as it is ("042" and "42" are two ids). Integers, uint64 included, become decimals
    and never pass through float. Booleans become "true" and "false". Floats are taken only when
    whole and within ±2**53, and lose their point: 42.0 and 42 are one id. Nulls stay null; an
    array of Arrow's null type is all nulls. Dictionary arrays are decoded first.

    Args:
        values: ids as text, integers, booleans or whole floats.

    Returns:
        A `pa.string()` array of the same length.

    Raises:
        ValueError: a float is a fraction, infinite, NaN or beyond ±2**53.
        TypeError: the values are of any other type, such as timestamps or decimals.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if pa.types.is_string(kind):
        return values
    if pa.types.is_floating(kind):
        offending = _positions_of_inexact_floats(values)
        if offending.size:
            first = int(offending[0])
            message = (
                f"{values[first].as_py()!r} at position {first} cannot be an id ({offending.size} "
                f"of {len(values)} values cannot): an id must be text or integer; a {kind} is "
                "taken only when whole and within ±2**53; "
                "cast the column to string or int64 at the source"
            )
            raise ValueError(message)
        return values.cast(pa.float64()).cast(pa.int64()).cast(pa.string())
    if (
        _is_text(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    ):
        return values.cast(pa.string())
    message = f"an id must be text or integer, got {kind}; cast the column to string at the source"
    raise TypeError(message)


def fingerprint64(texts: pa.Array | pa.ChunkedArray | Sequence[str]) -> Fingerprints:
    """Hashes texts with FarmHash Fingerprint64, the function of `tf.strings.to_hash_bucket_fast`.

    The fingerprint depends on the UTF-8 bytes alone: it is the same on every machine and in every
    release, and `TEST_VECTORS` lets another implementation check itself.

    Args:
        texts: `string` or `large_string`, sliced or not, without nulls; or Python strings.

    Returns:
        One uint64 per text.

    Raises:
        ValueError: a text is null.
        TypeError: the values are not text.

    References:
        Geoff Pike, "FarmHash", Google 2014, https://github.com/google/farmhash:
        `Fingerprint64`, which is `farmhashna::Hash64` without a seed.
    """
    if isinstance(texts, str):
        message = f"expected a sequence of texts, got the single text {texts!r}; wrap it in a list"
        raise TypeError(message)
    chunks = _arrow_chunks(texts)
    for chunk in chunks:
        if not (pa.types.is_string(chunk.type) or pa.types.is_large_string(chunk.type)):
            message = f"expected string or large_string, got {chunk.type}; use canonical_text first"
            raise TypeError(message)
    first_null = _first_null(chunks)
    if first_null is not None:
        message = (
            f"the text at position {first_null} is null, and null has no fingerprint; "
            "fill or drop nulls before hashing"
        )
        raise ValueError(message)
    fingerprints = np.empty(sum(len(chunk) for chunk in chunks), np.uint64)
    done = 0
    for chunk in chunks:
        data, offsets = _bytes_and_offsets(chunk)
        for first in range(0, len(chunk), _ROWS_AT_A_TIME):
            edges = offsets[first : first + _ROWS_AT_A_TIME + 1].astype(np.int64)
            rows = len(edges) - 1
            fingerprints[done : done + rows] = _hash_rows(data, edges[:-1], np.diff(edges))
            done += rows
    return fingerprints


def bucket(texts: pa.Array | pa.ChunkedArray | Sequence[str], num_buckets: int) -> Integers:
    """Puts texts into buckets, as `tf.strings.to_hash_bucket_fast` does.

    Args:
        texts: as in `fingerprint64`.
        num_buckets: how many buckets, from 1 to 2**63 - 1.

    Returns:
        One int64 per text, from 0 to `num_buckets - 1`: the fingerprint modulo `num_buckets`,
        both unsigned.

    Raises:
        ValueError: `num_buckets` is out of range.
    """
    if not 1 <= num_buckets <= LARGEST_BUCKETS:
        message = f"num_buckets must be from 1 to 2**63 - 1, got {num_buckets}"
        raise ValueError(message)
    return (fingerprint64(texts) % np.uint64(num_buckets)).astype(np.int64)


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _positions_of_inexact_floats(values: pa.Array) -> npt.NDArray[np.intp]:
    # Every half and single is a double, so the cast is exact.
    numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    whole = (np.trunc(numbers) == numbers) & (np.abs(numbers) <= LARGEST_EXACT_FLOAT)
    return np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False) & ~whole)


def _arrow_chunks(texts: pa.Array | pa.ChunkedArray | Sequence[str]) -> list[pa.Array]:
    if isinstance(texts, pa.ChunkedArray):
        return texts.chunks
    if isinstance(texts, pa.Array):
        return [texts]
    # 64-bit offsets: Arrow would otherwise split over 2 GiB of text into chunks.
    return [pa.array(texts, type=pa.large_string())]


def _first_null(chunks: list[pa.Array]) -> int | None:
    before = 0
    for chunk in chunks:
        if chunk.null_count:
            return before + int(np.argmax(chunk.is_null().to_numpy(zero_copy_only=False)))
        before += len(chunk)
    return None


def _bytes_and_offsets(texts: pa.Array) -> tuple[Bytes, npt.NDArray[Any]]:
    """Views of an array's UTF-8 bytes and of the `len + 1` offsets that its slice covers."""
    _, offsets, data = texts.buffers()
    if len(texts) == 0:  # Arrow may leave out the offsets of an empty array
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    offset_type = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    edges = np.frombuffer(offsets, offset_type)[texts.offset : texts.offset + len(texts) + 1]
    if data is None or data.size == 0:
        return np.empty(0, np.uint8), edges
    return np.frombuffer(data, np.uint8), edges


# A hash of one length class takes (bytes, start of each row, length of each row).
_HashClass = Callable[[Bytes, Integers, Integers], Fingerprints]


def _hash_rows(data: Bytes, starts: Integers, lengths: Integers) -> Fingerprints:
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
    """Takes 64 bytes of each row into its state."""
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
    """Rotates to the right."""
    return (value >> np.uint64(bits)) | (value << np.uint64(64 - bits))


def _words_at_every_byte(data: Bytes, word: str = "<u8") -> npt.NDArray[Any]:
    """Views `data` as the little-endian words that begin at each byte, without copying."""
    kind = np.dtype(word)
    return np.ndarray(len(data) - kind.itemsize + 1, kind, buffer=data, strides=(1,))


_LENGTH_CLASSES: tuple[tuple[int, int, _HashClass], ...] = (
    (1, 3, _hash_1_to_3),
    (4, 7, _hash_4_to_7),
    (8, 16, _hash_8_to_16),
    (17, 32, _hash_17_to_32),
    (33, 64, _hash_33_to_64),
    (65, LARGEST_BUCKETS, _hash_over_64),
)
