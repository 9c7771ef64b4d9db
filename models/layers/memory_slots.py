# SPDX-License-Identifier: Apache-2.0
"""Memory of slots that are overwritten, and the choice of memories that support an answer."""

from collections.abc import Sequence
from typing import Literal

import keras
import tensorflow as tf

from models.layers.masking import masked_softmax
from models.layers.positions import recency_ranks

Shape = Sequence[int | None]
Gating = Literal["probability", "none"]
NOTHING = -1
"""A place where no memory is."""


def store(ids: tf.Tensor, mask: tf.Tensor, num_slots: int) -> tf.Tensor:
    """Return which event each slot holds after all events were stored, int32 (batch, num_slots).

    m_{H(x)} = x in the order of the events, with H(x) = id mod num_slots: an event replaces what
    was in its slot, so that the newest of each slot remains. All slots are found at once.

    Args:
        ids: What of each event is hashed, int32 (batch, items), oldest first.
        mask: bool (batch, items), True at real events.
        num_slots: 1 or more.

    Returns:
        Places of events; `NOTHING` where a slot was never written to.

    References:
        Weston et al., Memory Networks, ICLR 2015, §2, Eq. 1, for G and its H(x).
    """
    rows, items = tf.unstack(tf.shape(ids))
    slots = tf.math.floormod(ids, num_slots) + tf.range(rows)[:, tf.newaxis] * num_slots
    places = tf.where(mask, tf.range(items), NOTHING)
    # empty segments are the smallest number of all
    last = tf.math.unsorted_segment_max(places, slots, rows * num_slots)
    return tf.reshape(tf.maximum(last, NOTHING), [rows, num_slots])


class SupportingMemories(keras.layers.Layer):
    """Chooses memories that support an answer, one after the other, each by those before it.

    o_j = arg max_i s_O([x, m_{o_1}, …, m_{o_{j-1}}], m_i),    s_O([x, …], m_i) = q_j · (y_i + T(i))
    q_1 = x,    q_{j+1} = q_j + p_j z_{o_j}

    y_i and z_i are two embeddings of memory i: as what is scored, and as what was chosen. A sum is
    what a bag of features of [x, m_{o_1}, …] is after its embedding.

    **Gradients.** A choice passes none. With `gating` "probability" p_j is the chosen memory's
    soft-max weight among all, so that scores learn from whatever comes after them: more of a memory
    that helps, and less of all others. With "none" p_j = 1, as in the paper, and scores
    learn from supporting facts alone.

    **Supporting facts.** Where `facts` are given in training, they are chosen, and the others must
    score lower by a margin: the layer adds Σ_j Σ_{i ≠ f_j} max(0, γ - s(f_j) + s(i)), averaged over
    rows with facts, to its losses.

    Args:
        num_supports: How many memories are chosen, 1 or more; the same one may be chosen again.
        max_items: How many recency ranks have a T of their own; older memories share the last.
        temporal: Whether there is a T.
        gating: What a chosen memory is multiplied by.
        margin: γ > 0.

    Call arguments:
        question: x, float (batch, dim).
        memories: y, float (batch, items, dim), oldest first unless `ranks` say otherwise.
        supports: z, float (batch, items, dim).
        mask: bool (batch, items), True at real memories, which come first unless `ranks` are given.
        ranks: How many memories are newer than each, int32 (batch, items).
        facts: Places of the memories that should be chosen, int32 (batch, num_supports); `NOTHING`
            where that is not known.
        training: Whether facts are chosen, and their loss added.

    Returns:
        The last q (batch, dim); the places chosen, int32 (batch, num_supports), `NOTHING` in a row
        without memories, which adds zeros; and p of what was chosen at its place, 0 elsewhere,
        (batch, num_supports, items).

    References:
        Weston et al., Memory Networks, ICLR 2015, §3.1, Eq. 2 to 5 for O; Eq. 6 and 7 for the
        margin ranking loss.
    Differs from the paper: time enters as T(i), a learnt vector by recency rank, not by comparing
        triples (§3.4, Eq. 9). The loss sums over all memories, where the paper draws some.
    """

    def __init__(
        self,
        num_supports: int = 2,
        max_items: int = 50,
        temporal: bool = True,
        gating: Gating = "probability",
        margin: float = 0.1,
    ) -> None:
        super().__init__(dtype=keras.config.floatx())
        self.num_supports = num_supports
        self.max_items = max_items
        self.temporal = temporal
        self.gating = gating
        self.margin = margin

    def build(self, question_shape: Shape, *_: Shape) -> None:
        """Create T."""
        self.time = None
        if self.temporal:
            normal = keras.initializers.RandomNormal(stddev=0.1)
            shape = (self.max_items, question_shape[-1])
            self.time = self.add_weight(name="time", shape=shape, initializer=normal)

    def call(
        self,
        question: tf.Tensor,
        memories: tf.Tensor,
        supports: tf.Tensor,
        mask: tf.Tensor,
        ranks: tf.Tensor | None = None,
        facts: tf.Tensor | None = None,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Choose; see the class."""
        ranks = recency_ranks(mask) if ranks is None else ranks
        ranks = tf.clip_by_value(ranks, 0, self.max_items - 1)
        some = tf.reduce_any(mask, axis=1)
        q, chosen, by_support, losses = question, [], [], []
        for support in range(self.num_supports):
            scores = tf.einsum("bd,btd->bt", q, memories)
            if self.time is not None:  # once per rank, not per memory
                at_rank = tf.matmul(q, self.time, transpose_b=True)
                scores += tf.gather(at_rank, ranks, batch_dims=1)
            best = tf.argmax(tf.where(mask, scores, scores.dtype.min), axis=1, output_type=tf.int32)
            if training and facts is not None:
                losses.append(self._ranking_loss(scores, facts[:, support], mask))
                best = tf.where(facts[:, support] >= 0, facts[:, support], best)
            weights = tf.where(some[:, tf.newaxis], self._weights(scores, best, mask), 0.0)
            q += tf.reduce_sum(weights, axis=1, keepdims=True) * tf.gather(
                supports, best, batch_dims=1
            )
            chosen.append(tf.where(some, best, NOTHING))
            by_support.append(weights)
        if losses:
            self.add_loss(tf.add_n(losses))
        return q, tf.stack(chosen, axis=1), tf.stack(by_support, axis=1)

    def _weights(self, scores: tf.Tensor, best: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Return p at the chosen place, 0 elsewhere, (batch, items)."""
        one = tf.one_hot(best, tf.shape(scores)[1], dtype=scores.dtype)
        return one if self.gating == "none" else one * masked_softmax(scores, mask)

    def _ranking_loss(self, scores: tf.Tensor, fact: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        known = fact >= 0
        right = tf.gather(scores, tf.maximum(fact, 0), batch_dims=1)[:, tf.newaxis]
        others = mask & tf.not_equal(tf.range(tf.shape(scores)[1]), fact[:, tf.newaxis])
        hinges = tf.maximum(self.margin - right + scores, 0.0)
        by_row = tf.reduce_sum(tf.where(others & known[:, tf.newaxis], hinges, 0.0), axis=1)
        count = tf.reduce_sum(tf.cast(known, scores.dtype))
        return tf.reduce_sum(by_row) / tf.maximum(count, 1.0)


class MarginRanking(keras.layers.Layer):
    """Adds a loss that grows where a clicked row does not score above unclicked ones by a margin.

    loss = λ · mean over pairs of max(0, γ - s(clicked) + s(not clicked))

    Pairs are of rows 1 … `negatives` apart in the batch, the last followed by the first: as many as
    there are rows, times `negatives`, at most.

    Args:
        strength: λ.
        margin: γ > 0.
        negatives: How many other rows a row is compared with, 1 or more.

    Call arguments:
        scores: Float (batch,).
        labels: 1 for clicked, else 0, (batch,).
        weights: Of the rows, float (batch,); a row of weight 0 is in no pair.

    Returns:
        The scores, unchanged.

    References:
        Weston et al., Memory Networks, ICLR 2015, §3.1, Eq. 8: the right response above drawn ones.
    Differs from the paper: drawn responses are those to other rows of the batch.
    """

    def __init__(self, strength: float, margin: float, negatives: int) -> None:
        super().__init__(dtype=keras.config.floatx())
        self.strength = strength
        self.margin = margin
        self.negatives = negatives
        self.built = True  # has no weights, and is not called while a model is built

    def call(self, scores: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Add the loss; see the class."""
        clicked = tf.cast(labels, scores.dtype)
        used = tf.cast(weights > 0, scores.dtype)
        total = pairs = tf.zeros([], scores.dtype)
        for apart in range(1, self.negatives + 1):
            other, label, there = (tf.roll(x, -apart, 0) for x in (scores, clicked, used))
            for pair, gap in (
                (clicked * (1 - label) * used * there, scores - other),
                ((1 - clicked) * label * used * there, other - scores),
            ):
                total += tf.reduce_sum(pair * tf.maximum(self.margin - gap, 0.0))
                pairs += tf.reduce_sum(pair)
        self.add_loss(self.strength * total / tf.maximum(pairs, 1.0))
        return scores
