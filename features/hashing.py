# SPDX-License-Identifier: Apache-2.0
"""The 64-bit fingerprint of an id's text: the same number offline and in the graph."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from features.farmhash import Bytes, Fingerprints, Integers, hash_rows

Texts: TypeAlias = pa.Array | pa.ChunkedArray | Sequence[str]

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
_ROWS_AT_A_TIME = 1 << 14  # temporaries of 128 KiB stay in the cache


def fingerprint64(texts: Texts) -> Fingerprints:
    """Hash texts with FarmHash Fingerprint64, the function of `tf.strings.to_hash_bucket_fast`.

    The fingerprint depends on the UTF-8 bytes alone: it is the same on every machine and in every
    release, and `TEST_VECTORS` lets another implementation check itself.

    Args:
        texts: `string` or `large_string`, sliced or not, without nulls; or Python strings.

    Returns:
        One uint64 per text.

    Raises:
        ValueError: a text is null.
        TypeError: the values are not text.
    """
    if isinstance(texts, str):
        message = f"expected a sequence of texts, got the single text {texts!r}; wrap it in a list"
        raise TypeError(message)
    chunks = _arrow_chunks(texts)
    for chunk in chunks:
        if not (pa.types.is_string(chunk.type) or pa.types.is_large_string(chunk.type)):
            message = f"expected string or large_string, got {chunk.type}; cast to string first"
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
            fingerprints[done : done + rows] = hash_rows(data, edges[:-1], np.diff(edges))
            done += rows
    return fingerprints


def bucket(texts: Texts, num_buckets: int) -> Integers:
    """Put texts into buckets, as `tf.strings.to_hash_bucket_fast` does.

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


def _arrow_chunks(texts: Texts) -> list[pa.Array]:
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
    """Return views of an array's UTF-8 bytes and of the `len + 1` offsets that its slice covers."""
    _, offsets, data = texts.buffers()
    if len(texts) == 0:  # Arrow may leave out the offsets of an empty array
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    offset_type = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    edges = np.frombuffer(offsets, offset_type)[texts.offset : texts.offset + len(texts) + 1]
    if data is None or data.size == 0:
        return np.empty(0, np.uint8), edges
    return np.frombuffer(data, np.uint8), edges
