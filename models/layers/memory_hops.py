# SPDX-License-Identifier: Apache-2.0
"""Memory that is read several times, each time by what was read before."""

from collections.abc import Sequence
from typing import Literal

import keras
import numpy as np
import tensorflow as tf

from models.layers.masking import masked_softmax, weighted_sum
from models.layers.positions import recency_ranks

Shape = Sequence[int | None]
Tying = Literal["adjacent", "layer_wise"]


def number_of_sets(tying: Tying, num_hops: int) -> int:
    """Return how many embedding sets the memories of `EndToEndMemory` need."""
    return num_hops + 1 if tying == "adjacent" else 2


def position_encoding(places: int, dim: int) -> np.ndarray:
    """Return the weight of each coordinate at each place of a sentence, float64 (places, dim).

    l_kj = (1 - j/J) - (k/d) (1 - 2j/J), j = 1 … J the place and k = 1 … d the coordinate.

    Args:
        places: J, number of words of a sentence, or of fields of an event.
        dim: d, width of an embedding.

    References:
        Sukhbaatar et al., End-To-End Memory Networks, NIPS 2015, §4.1, "Sentence Representation".
    """
    j = np.arange(1, places + 1)[:, np.newaxis] / places
    k = np.arange(1, dim + 1) / dim
    return (1 - j) - k * (1 - 2 * j)


class EndToEndMemory(keras.layers.Layer):
    """Several hops over a memory: what is read becomes part of the next question.

    p_i = soft-max(u^k · (A^k_i + T_A^k(i)));    o^k = Σ_i p_i (C^k_i + T_C^k(i))
    u^{k+1} = o^k + u^k, or o^k + H u^k with layer-wise tying

    T(i) is learnt by recency rank. It is never spread over the memories: u·T_A is computed once
    per rank, and Σ p_i T_C(i) from weights by rank, so that time costs as much as two numbers per
    memory. Work and memory are linear in the number of memories, the graph does not depend on it.

    Args:
        num_hops: K, 1 or more.
        max_items: How many ranks have a T of their own; older memories share the last.
        tying: "adjacent": A^{k+1} = C^k, so that K + 1 sets of embeddings serve K hops.
            "layer_wise": two sets, A and C, serve all hops, with a matrix H between them.
        temporal: Whether there is a T.
        empty_rate: Chance in [0, 1) that in training an empty memory stands behind a memory, which
            makes all older ones one rank older, so that ranks are not learnt by heart.

    Call arguments:
        question: u^1, float (batch, dim).
        memories: Encoded memories of every set, float (batch, items, sets, dim), oldest first.
            Adjacent: A^k is set k and C^k set k + 1; layer-wise: A, then C.
        mask: bool (batch, items), True at real memories, which come first.
        linear: Whether to leave the soft-max out, as at the start of a training ("linear start").
        training: Whether empty memories are put in.

    Returns:
        u^{K+1} (batch, dim) and p of every hop (batch, hops, items). A row without memories reads
        zeros; the weights of padding are 0.

    References:
        Sukhbaatar et al., End-To-End Memory Networks, NIPS 2015, §2.1, Eq. 1 and 2; §2.2, Eq. 4
        and both tyings; §4.1 for time ("Temporal Encoding"), empty memories ("Random Noise") and
        linear start (§4.2).
    Differs from the paper: empty memories shift ranks but take no attention; without soft-max the
        mask still applies. What `question` and `memories` are made of is the caller's.
    """

    def __init__(
        self,
        num_hops: int = 3,
        max_items: int = 50,
        tying: Tying = "adjacent",
        temporal: bool = True,
        empty_rate: float = 0.0,
    ) -> None:
        # float32 whatever the policy: a soft-max over a thousand memories
        super().__init__(dtype=keras.config.floatx())
        self.num_hops = num_hops
        self.max_items = max_items
        self.tying = tying
        self.temporal = temporal
        self.empty_rate = empty_rate
        self.initializer = keras.initializers.RandomNormal(stddev=0.1)  # the paper's, §4.2
        self.seed_generator = keras.random.SeedGenerator() if empty_rate else None

    def build(self, question_shape: Shape, memories_shape: Shape) -> None:
        """Create T and H."""
        *_, sets, dim = memories_shape
        if sets != number_of_sets(self.tying, self.num_hops):
            raise ValueError(
                f"{self.num_hops} hops with {self.tying} tying need "
                f"{number_of_sets(self.tying, self.num_hops)} sets of memories, got {sets}"
            )
        self.time = self.matrix = None
        if self.temporal:
            shape = (sets, self.max_items, dim)
            self.time = self.add_weight(name="time", shape=shape, initializer=self.initializer)
        if self.tying == "layer_wise":
            self.matrix = self.add_weight(
                name="hop_kernel", shape=(dim, dim), initializer=self.initializer
            )

    def call(
        self,
        question: tf.Tensor,
        memories: tf.Tensor,
        mask: tf.Tensor,
        linear: bool = False,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the answer and the weights of every hop; see the class."""
        ranks = self._ranks(mask, training)
        u, by_hop = question, []
        for hop in range(self.num_hops):
            # layer-wise: always A, then C
            a, c = (hop, hop + 1) if self.tying == "adjacent" else (0, 1)
            scores = tf.einsum("bd,btd->bt", u, memories[:, :, a])
            if self.time is not None:
                at_rank = tf.matmul(u, self.time[a], transpose_b=True)  # (B, ranks)
                scores += tf.gather(at_rank, ranks, batch_dims=1)
            weights = tf.where(mask, scores, 0.0) if linear else masked_softmax(scores, mask)
            o = weighted_sum(memories[:, :, c], weights)
            if self.time is not None:
                o += tf.matmul(_by_rank(weights, ranks, self.max_items), self.time[c])
            u = o + (u if self.matrix is None else tf.matmul(u, self.matrix))
            by_hop.append(weights)
        return u, tf.stack(by_hop, axis=1)

    def _ranks(self, mask: tf.Tensor, training: bool) -> tf.Tensor:
        ranks = recency_ranks(mask)
        if training and self.seed_generator:
            empty = tf.random.stateless_uniform(tf.shape(mask), self.seed_generator.next())
            behind = tf.cast((empty < self.empty_rate) & mask, tf.int32)
            ranks += tf.cumsum(behind, axis=1, exclusive=True, reverse=True)
        return tf.clip_by_value(ranks, 0, self.max_items - 1)


def _by_rank(weights: tf.Tensor, ranks: tf.Tensor, count: int) -> tf.Tensor:
    """Return the sum of the weights (batch, items) of each rank, (batch, count)."""
    rows = tf.shape(weights)[0]
    flat = ranks + tf.range(rows)[:, tf.newaxis] * count
    sums = tf.math.unsorted_segment_sum(
        tf.reshape(weights, [-1]), tf.reshape(flat, [-1]), rows * count
    )
    return tf.reshape(sums, [rows, count])
