# SPDX-License-Identifier: Apache-2.0
"""Memory of keys that are compared and values that are read, and hashing that keeps it small."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from features.schema import MISSING
from models.layers.masking import masked_softmax, weighted_sum

Shape = Sequence[int | None]


class KeyValueMemory(keras.layers.Layer):
    """Several hops that compare keys and read values.

    p_i = soft-max(q_j · k_i);    o_j = Σ_i p_i v_i;    q_{j+1} = R_j (q_j + o_j)

    Args:
        num_hops: H, 1 or more.

    Call arguments:
        question: q_1, float (batch, dim).
        keys: k, float (batch, items, dim).
        values: v, float (batch, items, dim).
        mask: bool (batch, items), True at real memories.

    Returns:
        q_{H+1} (batch, dim) and p of every hop (batch, hops, items). A row without memories reads
        zeros; the weights of padding are 0.

    References:
        Miller et al., Key-Value Memory Networks for Directly Reading Documents, EMNLP 2016, §3.1,
        "Key Addressing" and "Value Reading".
    Differs from the paper: R starts as the identity, where the first hops compare like with like;
        what A Φ makes of a question, a key or a value is the caller's.
    """

    def __init__(self, num_hops: int = 2) -> None:
        # float32 whatever the policy: a soft-max over a thousand memories
        super().__init__(dtype=keras.config.floatx())
        self.num_hops = num_hops

    def build(self, question_shape: Shape, *_: Shape) -> None:
        """Create R of every hop."""
        dim = question_shape[-1]
        self.matrices = [
            self.add_weight(name=f"hop_kernel_{hop}", shape=(dim, dim), initializer="identity")
            for hop in range(self.num_hops)
        ]

    def call(
        self, question: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the answer and the weights of every hop; see the class."""
        q, by_hop = question, []
        for matrix in self.matrices:
            weights = masked_softmax(tf.einsum("bd,btd->bt", q, keys), mask)
            q = tf.matmul(q + weighted_sum(values, weights), matrix)
            by_hop.append(weights)
        return q, tf.stack(by_hop, axis=1)


def newest(matches: tf.Tensor, max_memories: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return where the newest matches stand, newest first, whatever their number.

    Args:
        matches: bool (batch, items), oldest first.
        max_memories: How many to keep at most.

    Returns:
        Places, int32 (batch, kept), and which of them are matches, bool (batch, kept). `kept` is
        `max_memories`, or the number of items if that is less.
    """
    items = matches.shape[1]
    if items is None:
        items = tf.shape(matches)[1]
        kept = tf.minimum(max_memories, items)
    else:
        kept = min(max_memories, items)
    order = tf.where(matches, tf.range(1, items + 1), 0)
    found, places = tf.math.top_k(order, kept)
    return places, found > 0


def same_key(ids: Sequence[tf.Tensor], asked: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return which events share an id with the question, bool (batch, items).

    Padding and missing values, the stop words of a log, are shared by nobody.

    Args:
        ids: Of each field of the keys, int32 (batch, items).
        asked: Of the same field of the question, int32 (batch,).

    References:
        Miller et al. 2016, §3.1, "Key Hashing": keys that share a word with the question.
    """
    matches = [
        tf.equal(events, question[:, tf.newaxis]) & (events > MISSING)
        for events, question in zip(ids, asked, strict=True)
    ]
    return tf.reduce_any(tf.stack(matches), axis=0)


class SimHash:
    """Which keys lie in about the direction of the question, by a few bits of each.

    A bit says on which side of a random hyperplane a vector lies; two vectors at angle θ differ in
    θ / π of their bits on average. Nothing is learnt and no gradient passes.

    Args:
        dim: Width of the vectors.
        num_bits: Number of hyperplanes.
        max_distance: In how many bits a key may differ from the question.
        seed: Of the hyperplanes' normal vectors.

    References:
        Charikar, Similarity Estimation Techniques from Rounding Algorithms, STOC 2002, §3.
    Differs from the paper: nothing.
    """

    def __init__(self, dim: int, num_bits: int, max_distance: int, seed: int) -> None:
        self.normals = np.random.default_rng(seed).normal(size=(dim, num_bits))
        self.max_distance = max_distance

    def bits(self, vectors: tf.Tensor) -> tf.Tensor:
        """Return the bits of vectors (…, dim), bool (…, bits)."""
        normals = tf.constant(self.normals, vectors.dtype)
        return tf.tensordot(tf.stop_gradient(vectors), normals, 1) >= 0

    def matches(self, question: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Return which keys (batch, items, dim) agree with the question (batch, dim), bool."""
        differ = tf.not_equal(self.bits(keys), self.bits(question)[:, tf.newaxis])
        return tf.reduce_sum(tf.cast(differ, tf.int32), axis=-1) <= self.max_distance


def put_back(weights: tf.Tensor, places: tf.Tensor, items: tf.Tensor) -> tf.Tensor:
    """Return weights of chosen events at the places where these stand, 0 elsewhere.

    Args:
        weights: (batch, hops, kept).
        places: int32 (batch, kept).
        items: Number of places.

    Returns:
        (batch, hops, items).
    """
    rows, hops, _ = tf.unstack(tf.shape(weights))
    start = tf.reshape(tf.range(rows * hops) * items, [rows, hops, 1])
    flat = tf.math.unsorted_segment_sum(weights, start + places[:, tf.newaxis], rows * hops * items)
    return tf.reshape(flat, [rows, hops, items])
