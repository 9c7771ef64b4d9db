# SPDX-License-Identifier: Apache-2.0
import keras
import tensorflow as tf


class NextEventLoss(keras.layers.Layer):
    """Loss of a state that should tell the next event from events of other rows.

    L = α / N Σ_t [ -log σ(h_t · e_{t+1}) - mean_j log(1 - σ(h_t · ê_j)) ]

    over the N events of the batch that have a next one. The negatives ê_j of a row are events of
    other rows, drawn in proportion to how often they occur in the batch; one whose id is found
    anywhere in the row's own history is left out, and so is the second term of a row without any.

    Args:
        weight: α, 0 or more.
        num_negatives: Events drawn per row, at least 1.

    Call arguments:
        states: h, float (batch, items, dim).
        events: e, float (batch, items, dim).
        ids: What tells events apart, int32 (batch, items).
        mask: bool (batch, items), True at real items, which come first.

    Returns:
        L, a number, which also becomes part of `losses`.

    References:
        Zhou et al., Deep Interest Evolution Network for Click-Through Rate Prediction, AAAI 2019,
        "Interest Extractor Layer", Eq. 6 and 7.
    Differs from the paper: several negatives per row, shared by its events, instead of one per
        event; they come from the batch, not from all items; L is a mean over events, as in the
        authors' code, not a sum over the events of a row. σ(h · e) is the paper's, where the
        authors' code has an MLP.
    """

    def __init__(self, weight: float = 1.0, num_negatives: int = 8) -> None:
        # float32 whatever the policy: sums over all events of a batch
        super().__init__(dtype=keras.config.floatx())
        self.weight = weight
        self.num_negatives = num_negatives
        self.seed_generator = keras.random.SeedGenerator()
        self.built = True  # it has no weights, and inference does not call it

    def call(
        self, states: tf.Tensor, events: tf.Tensor, ids: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Return the loss and add it to `losses`; see the class."""
        places, usable = self.draw(ids, mask)
        negatives = tf.gather(tf.reshape(events, [-1, events.shape[-1]]), places)  # (B, J, D)
        usable = tf.cast(usable, states.dtype)[:, tf.newaxis]
        states, followed = states[:, :-1], tf.cast(mask[:, 1:], states.dtype)
        positive = tf.reduce_sum(states * events[:, 1:], axis=-1)
        negative = tf.einsum("btd,bjd->btj", states, negatives)
        losses = tf.math.softplus(-positive) + tf.math.divide_no_nan(
            tf.reduce_sum(usable * tf.math.softplus(negative), axis=-1),
            tf.reduce_sum(usable, axis=-1),
        )
        mean = tf.math.divide_no_nan(tf.reduce_sum(followed * losses), tf.reduce_sum(followed))
        loss = self.weight * mean
        self.add_loss(loss)
        return loss

    def draw(self, ids: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return drawn places of the batch and which of them are no events of the row.

        Args:
            ids: int32 (batch, items).
            mask: bool (batch, items).

        Returns:
            Flat places (row * items + item), int32 (batch, negatives), and bool of that shape.
        """
        rows, items = tf.shape(ids)[0], tf.shape(ids)[1]
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
        ends = tf.cumsum(lengths)
        total = ends[-1]
        drawn = tf.random.stateless_uniform(
            (rows, self.num_negatives),
            self.seed_generator.next(),
            0,
            tf.maximum(total, 1),
            tf.int32,
        )
        row = tf.searchsorted(ends, tf.reshape(drawn, [-1]), side="right")
        row = tf.reshape(tf.minimum(row, rows - 1), (rows, self.num_negatives))
        places = row * items + drawn - tf.gather(ends - lengths, row)
        places = tf.minimum(places, rows * items - 1)  # a batch without events has no place
        found = tf.gather(tf.reshape(ids, [-1]), places)
        own = (found[:, :, tf.newaxis] == ids[:, tf.newaxis]) & mask[:, tf.newaxis]
        return places, ~tf.reduce_any(own, axis=-1) & (total > 0)
