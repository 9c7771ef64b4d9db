# SPDX-License-Identifier: Apache-2.0
"""Fingerprints against TensorFlow's own FarmHash."""

import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from features.hashing import TEST_VECTORS, bucket, fingerprint64

LENGTH_CLASSES = [(0, 0), (1, 3), (4, 7), (8, 16), (17, 32), (33, 64), (65, sys.maxsize)]
ALPHABET = "0123456789abcXYZ _-éßДя日本語😀🛒\x00\n"

# A property is no benchmark: the first call into TensorFlow, or a busy machine, may be slow.
no_deadline = settings(deadline=None)

TEXT_OF_ANY_LENGTH = st.integers(0, 300).flatmap(lambda size: st.text(min_size=size, max_size=size))


def fingerprints_by_tensorflow(texts):
    """Whole 64-bit fingerprints: the low 62 bits, then the remainder by 5 tells the upper two."""
    low = tf.strings.to_hash_bucket_fast(texts, 2**62).numpy().astype(np.uint64)
    by_five = tf.strings.to_hash_bucket_fast(texts, 5).numpy().astype(np.uint64)
    candidates = low + (np.arange(4, dtype=np.uint64)[:, None] << 62)  # (4, texts)
    matches = candidates % 5 == by_five  # 2**62 and 5 are coprime: one candidate fits
    assert (matches.sum(axis=0) == 1).all()
    return candidates[matches.argmax(axis=0), np.arange(len(texts))]


def texts_of_every_length(longest, alphabet=ALPHABET):
    random = np.random.default_rng(5)
    return [
        "".join(alphabet[letter] for letter in random.integers(0, len(alphabet), size))
        for size in range(longest + 1)
    ]


def test_vectors_are_the_fingerprints():
    texts = [text for text, _ in TEST_VECTORS]
    expected = np.array([value for _, value in TEST_VECTORS], np.uint64)
    np.testing.assert_array_equal(fingerprint64(texts), expected)
    np.testing.assert_array_equal(fingerprints_by_tensorflow(texts), expected)


@pytest.mark.parametrize(("shortest", "longest"), LENGTH_CLASSES)
def test_vectors_cover_every_length_class(shortest, longest):
    sizes = [len(text.encode()) for text, _ in TEST_VECTORS]
    assert any(shortest <= size <= longest for size in sizes)


def test_vectors_contain_text_beyond_ascii():
    assert sum(not text.isascii() for text, _ in TEST_VECTORS) >= 3


def test_fingerprints_by_hand_from_the_definition():
    # An empty text is the constant k2; one byte c of length n = 1 is first = middle = last.
    k0, k2 = 0xC3A5C85C97CB3127, 0x9AE16A3B2F90404F
    byte = ord("7")
    mixed = ((byte + (byte << 8)) * k2 % 2**64) ^ ((1 + (byte << 2)) * k0 % 2**64)
    one_byte = (mixed ^ (mixed >> 47)) * k2 % 2**64
    assert fingerprint64(["", "7"]).tolist() == [k2, one_byte]


@pytest.mark.parametrize("text_type", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("alphabet", ["0123456789abcdef", ALPHABET])  # one byte each; one to four
def test_every_length_agrees_with_tensorflow(text_type, alphabet):
    texts = texts_of_every_length(300, alphabet)
    found = fingerprint64(pa.array(texts, text_type))
    assert found.dtype == np.uint64
    np.testing.assert_array_equal(found, fingerprints_by_tensorflow(texts))


@pytest.mark.parametrize("size", [63, 64, 65, 127, 128, 129, 191, 192, 193, 4096, 70_001])
def test_block_edges_agree_with_tensorflow(size):
    texts = ["x" * size, ("0123456789" * size)[:size], "z" * (size - 2) + "é"]
    np.testing.assert_array_equal(fingerprint64(texts), fingerprints_by_tensorflow(texts))


@given(st.lists(TEXT_OF_ANY_LENGTH, max_size=4))
@no_deadline
def test_arbitrary_text_agrees_with_tensorflow(texts):
    expected = fingerprints_by_tensorflow(tf.constant(texts, tf.string))
    np.testing.assert_array_equal(fingerprint64(texts), expected)


@given(st.lists(st.text(max_size=90), max_size=12), st.data())
@no_deadline
def test_slices_and_chunks_hash_like_their_texts(texts, data):
    whole = fingerprint64(texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=4)))
    edges = [0, *cuts, len(texts)]
    array = pa.array(texts, pa.string())
    slices = [array.slice(start, stop - start) for start, stop in pairwise(edges)]
    for piece, (start, stop) in zip(slices, pairwise(edges), strict=True):
        np.testing.assert_array_equal(fingerprint64(piece), whole[start:stop])
    np.testing.assert_array_equal(fingerprint64(pa.chunked_array(slices, pa.string())), whole)


def test_a_fingerprint_does_not_depend_on_its_neighbours_or_position():
    # More rows than are hashed at a time, with long texts among short ones in mixed order.
    texts = texts_of_every_length(200)
    order = np.random.default_rng(2).integers(0, len(texts), 40_000)
    found = fingerprint64(pa.array(texts).take(pa.array(order)))
    np.testing.assert_array_equal(found, fingerprints_by_tensorflow(texts)[order])


@pytest.mark.parametrize(
    "empty",
    [
        [],
        pa.array([], pa.string()),
        pa.array([], pa.large_string()),
        pa.array(["a", "b"]).slice(2),
        pa.chunked_array([], pa.string()),
    ],
)
def test_no_texts_have_no_fingerprints(empty):
    assert fingerprint64(empty).shape == (0,)
    assert fingerprint64(empty).dtype == np.uint64


def test_nulls_have_no_fingerprint():
    array = pa.array(["a", "b", None, None])
    with pytest.raises(ValueError, match=r"position 2 is null.*fill or drop nulls"):
        fingerprint64(array)
    with pytest.raises(ValueError, match="position 1 is null"):
        fingerprint64(array.slice(1))
    with pytest.raises(ValueError, match="position 4 is null"):
        bucket(pa.chunked_array([array.slice(0, 2), array]), 7)
    with pytest.raises(ValueError, match="position 0 is null"):
        fingerprint64([None, "a"])
    assert fingerprint64(array.slice(0, 2)).tolist() == fingerprint64(["a", "b"]).tolist()


def test_only_text_is_hashed():
    with pytest.raises(TypeError, match="got int64; cast to string first"):
        fingerprint64(pa.array([1, 2]))
    with pytest.raises(TypeError, match="single text 'abc'; wrap it in a list"):
        fingerprint64("abc")


@pytest.mark.parametrize(
    "num_buckets", [1, 2, 10, 1000, 2**20, 2**31 - 1, 2**32 + 15, 2**61 - 1, 2**63 - 1]
)
def test_buckets_agree_with_tensorflow(num_buckets):
    texts = texts_of_every_length(150)
    found = bucket(texts, num_buckets)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, tf.strings.to_hash_bucket_fast(texts, num_buckets))


@given(st.lists(TEXT_OF_ANY_LENGTH, max_size=4), st.integers(1, 2**63 - 1))
@no_deadline
def test_any_number_of_buckets_agrees_with_tensorflow(texts, num_buckets):
    expected = tf.strings.to_hash_bucket_fast(tf.constant(texts, tf.string), num_buckets)
    np.testing.assert_array_equal(bucket(texts, num_buckets), expected)


def test_buckets_take_the_fingerprint_as_unsigned():
    # "" has the fingerprint 0x9AE16A3B2F90404F: negative if it were signed.
    assert bucket([""], 1000).tolist() == [0x9AE16A3B2F90404F % 1000]


@pytest.mark.parametrize("num_buckets", [0, -1, 2**63])
def test_number_of_buckets_must_be_in_range(num_buckets):
    with pytest.raises(ValueError, match=rf"from 1 to 2\*\*63 - 1, got {num_buckets}"):
        bucket(["a"], num_buckets)
