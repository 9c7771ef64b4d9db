# SPDX-License-Identifier: Apache-2.0
"""How well a key fits a query: the scorers of `AttentionPooling`.

To add one, write its `call`, and `build(query_shape, keys_shape)` if it has weights.
`ActivationUnit`, which is an MLP, has a file of its own.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf

Shape = Sequence[int | None]


class Scorer(keras.layers.Layer):
    """How well each key fits a query.

    Call arguments:
        query: Float (batch, dim).
        keys: Float (batch, items, keys' dim).
        mask: bool (batch, items), True at real items; scores at padding are ignored.
        places: Flat places (row * items + item) of the real items in order, int32 (any number
            ≥ real items,), what is beyond them ignored. A scorer whose work per item is heavy
            computes there only; without it, or in other scorers, everywhere.
        training: Whether batch statistics are on.

    Returns:
        Scores, float (batch, items), or (batch, heads, items) of a scorer with `num_heads`.
    """

    num_heads: int | None = None
    """How many weightings of the items a scorer gives; None: one, without an axis for it."""

    def __init__(self) -> None:
        super().__init__()
        self.supports_masking = True  # or Keras warns that a mask is lost

    def build(self, query_shape: Shape, keys_shape: Shape) -> None:
        """Create the weights, if there are any."""


class DotScorer(Scorer):
    """How well a key fits: q·k.

    References:
        Luong et al., Effective Approaches to Attention-based Neural Machine Translation,
        EMNLP 2015, §3.1, Eq. 8 ("dot").
    Differs from the paper: nothing.
    """

    def build(self, query_shape: Shape, keys_shape: Shape) -> None:
        """Check that the two can be multiplied."""
        if query_shape[-1] != keys_shape[-1]:
            raise ValueError(
                f"dot product of a query of {query_shape[-1]} with keys of {keys_shape[-1]}; "
                "use a scorer with a matrix between them"
            )

    def call(
        self,
        query: tf.Tensor,
        keys: tf.Tensor,
        mask: tf.Tensor | None = None,
        places: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Return scores (batch, items)."""
        return tf.einsum("bd,btd->bt", query, keys)


class ScaledDotScorer(DotScorer):
    """How well a key fits: q·k / √dim.

    References:
        Vaswani et al., Attention Is All You Need, NIPS 2017, §3.2.1, Eq. 1.
    Differs from the paper: one query per row.
    """

    def call(
        self,
        query: tf.Tensor,
        keys: tf.Tensor,
        mask: tf.Tensor | None = None,
        places: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Return scores (batch, items)."""
        return super().call(query * keys.shape[-1] ** -0.5, keys)


class GeneralScorer(Scorer):
    """How well a key fits: q W k, where W may make two spaces comparable.

    Call arguments and returns: see `Scorer`; query and keys may differ in width.

    References:
        Luong et al., Effective Approaches to Attention-based Neural Machine Translation,
        EMNLP 2015, §3.1, Eq. 8 ("general").
    Differs from the paper: nothing.
    """

    def build(self, query_shape: Shape, keys_shape: Shape) -> None:
        """Create W."""
        shape = (query_shape[-1], keys_shape[-1])
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="glorot_uniform")

    def call(
        self,
        query: tf.Tensor,
        keys: tf.Tensor,
        mask: tf.Tensor | None = None,
        places: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Return scores (batch, items)."""
        # q W once per row, not W k once per item
        return tf.einsum("bk,btk->bt", tf.matmul(query, self.kernel), keys)


class AdditiveScorer(Scorer):
    """How well a key fits: v · tanh(W_s s + W_h h) of query s and key h.

    Location encodings: a key that is [h; e_i; e_j], an event beside the encodings of its places on
    two axes, such as its recency rank (`positions.RecencyEncoding`) and the time since it, has

        v · tanh(W_s s + W_f1 h + W_f2 e_i + W_f3 e_j),    W_h = [W_f1, W_f2, W_f3];

    with the events alone as `values` of the pooling, places decide the weights only.

    Args:
        units: Width of v, at least 1.

    Call arguments and returns: see `Scorer`; query and keys may differ in width.

    References:
        Bahdanau et al., Neural Machine Translation by Jointly Learning to Align and Translate,
        ICLR 2015, §A.1.2, the alignment model a(s, h).
    Differs from the paper: nothing; locations are no part of it.
    """

    def __init__(self, units: int) -> None:
        super().__init__()
        self.units = units

    def build(self, query_shape: Shape, keys_shape: Shape) -> None:
        """Create W_s, W_h and v."""
        self.query_kernel, self.keys_kernel = (
            self.add_weight(
                name=f"{name}_kernel", shape=(dim, self.units), initializer="glorot_uniform"
            )
            for name, dim in (("query", query_shape[-1]), ("keys", keys_shape[-1]))
        )
        # as a matrix to one number would start: a vector's fans do not say what it sums
        bound = (6 / (self.units + 1)) ** 0.5
        self.projection = self.add_weight(
            name="projection",
            shape=(self.units,),
            initializer=keras.initializers.RandomUniform(-bound, bound),
        )

    def call(
        self,
        query: tf.Tensor,
        keys: tf.Tensor,
        mask: tf.Tensor | None = None,
        places: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Return scores (batch, items)."""
        own = tf.matmul(query, self.query_kernel)[:, tf.newaxis]
        hidden = tf.tanh(own + tf.tensordot(keys, self.keys_kernel, 1))  # (B, T, U)
        return tf.tensordot(hidden, self.projection, 1)


class MultiHeadScorer(Scorer):
    """How well a key fits, in several ways at once: (q W_h^Q) · (k W_h^K) / √head_dim of head h.

    A pooling with this scorer projects each head's pooled values and joins the heads; see
    `AttentionPooling`.

    Args:
        num_heads: Number of heads, at least 1.
        head_dim: Width in which a head compares, at least 1.

    Call arguments and returns: see `Scorer`; query and keys may differ in width.

    References:
        Vaswani et al., Attention Is All You Need, NIPS 2017, §3.2.2.
    Differs from the paper: one query per row; projections have no bias, as in the paper.
    """

    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = head_dim

    def build(self, query_shape: Shape, keys_shape: Shape) -> None:
        """Create W^Q and W^K of all heads."""
        self.query_kernel, self.keys_kernel = (
            self.add_weight(
                name=f"{name}_kernel",
                shape=(dim, self.num_heads, self.head_dim),
                initializer=heads_initializer(dim, self.num_heads, self.head_dim),
            )
            for name, dim in (("query", query_shape[-1]), ("keys", keys_shape[-1]))
        )

    def call(
        self,
        query: tf.Tensor,
        keys: tf.Tensor,
        mask: tf.Tensor | None = None,
        places: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Return scores (batch, heads, items)."""
        projected = tf.einsum("bd,dhu->bhu", query, self.query_kernel) * self.head_dim**-0.5
        # (q W^Q) W^K once per row, not k W^K once per item
        compared = tf.einsum("bhu,khu->bhk", projected, self.keys_kernel)
        return tf.einsum("bhk,btk->bht", compared, keys)


def heads_initializer(
    inputs: int | None, num_heads: int | None, head_dim: int
) -> keras.initializers.Initializer:
    """Return Glorot's uniform initializer for the matrices of several heads side by side.

    Args:
        inputs: Width of what is projected.
        num_heads: Number of heads; None counts as one.
        head_dim: Width of each head.
    """
    bound = (6 / ((inputs or 1) + (num_heads or 1) * head_dim)) ** 0.5
    return keras.initializers.RandomUniform(-bound, bound)
