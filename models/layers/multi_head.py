# SPDX-License-Identifier: Apache-2.0
import keras
import tensorflow as tf

from models.layers.blocked_attention import Seen, blocked_attention, queries_at_once
from models.layers.masking import masked_softmax
from models.layers.scorers import Shape, heads_initializer


class MultiHeadAttention(keras.layers.Layer):
    """Each token of one sequence attends to the tokens of another, or its own, in several heads.

    head_h = soft-max(Q W_h^Q (K W_h^K)ᵀ / √head_dim) K W_h^V;    [head_1; …; head_H] W^O

    Without `return_weights`, long sequences are attended to some queries at a time, so that memory
    is bounded where the weights, as many as queries times items, would not fit.

    Args:
        num_heads: Number of heads, at least 1.
        head_dim: Width of each head, at least 1.
        dropout_rate: Share of attention weights dropped in training, in [0, 1).

    Call arguments:
        queries: Q, float (batch, queries, dim).
        keys: K, float (batch, items, keys' dim), the values as well.
        mask: bool (batch, items), True at real items.
        causal: Whether query i may look at items 0 … i only; one that may look nowhere gets the
            zero vector.
        return_weights: Whether to return the soft-max weights as well.
        training: Whether dropout is on.

    Returns:
        Float (batch, queries, dim); with `return_weights` also (batch, heads, queries, items).

    References:
        Vaswani et al., Attention Is All You Need, NIPS 2017, §3.2.1 and §3.2.2, Eq. 1.
    Differs from the paper: head_dim need not be dim / num_heads; attention weights are dropped, as
        in the authors' code.
    """

    def __init__(self, num_heads: int, head_dim: int, dropout_rate: float = 0.0) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.dropout = keras.layers.Dropout(dropout_rate)

    def build(self, queries_shape: Shape, keys_shape: Shape) -> None:
        """Create W^Q, W^K, W^V and W^O of all heads."""
        heads, units = self.num_heads, self.head_dim
        dims = {"query": queries_shape[-1], "key": keys_shape[-1], "value": keys_shape[-1]}
        self.query_kernel, self.key_kernel, self.value_kernel = (
            self.add_weight(
                name=f"{name}_kernel",
                shape=(dim, heads * units),
                initializer=heads_initializer(dim, heads, units),
            )
            for name, dim in dims.items()
        )
        self.output_kernel = self.add_weight(
            name="output_kernel",
            shape=(heads * units, queries_shape[-1]),
            initializer="glorot_uniform",
        )

    def call(
        self,
        queries: tf.Tensor,
        keys: tf.Tensor,
        mask: tf.Tensor,
        *,
        causal: bool = False,
        return_weights: bool = False,
        training: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
        """Attend; see the class."""
        query = self._heads(queries, self.query_kernel) * self.head_dim**-0.5  # (B, H, Q, U)
        key, value = (self._heads(keys, kernel) for kernel in (self.key_kernel, self.value_kernel))
        seen = Seen(mask, causal)
        at_once = queries_at_once(query.shape, key.shape[2])
        if at_once and not return_weights:
            if training and self.dropout.rate:
                seed = self.dropout.seed_generator.next()
                seen = seen._replace(dropout_rate=self.dropout.rate, seed=seed)
            attended = blocked_attention(query, key, value, seen, at_once)
            return self._joined(attended)
        scores = tf.matmul(query, key, transpose_b=True)  # (B, H, Q, T)
        weights = masked_softmax(scores, seen.visible(0, tf.shape(queries)[1]))
        attended = tf.matmul(self.dropout(weights, training=training), value)
        outputs = self._joined(attended)
        return (outputs, weights) if return_weights else outputs

    def _heads(self, tokens: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        """Return the tokens' projections by head, (batch, heads, tokens, head_dim)."""
        sizes = zip(tokens.shape[:2], tf.unstack(tf.shape(tokens)[:2]), strict=True)
        rows, count = (dynamic if known is None else known for known, dynamic in sizes)
        shape = (rows, count, self.num_heads, self.head_dim)
        return tf.transpose(tf.reshape(tf.tensordot(tokens, kernel, 1), shape), (0, 2, 1, 3))

    def _joined(self, attended: tf.Tensor) -> tf.Tensor:
        """Return [head_1; …; head_H] W^O, (batch, queries, dim)."""
        attended = tf.transpose(attended, (0, 2, 1, 3))
        width = self.num_heads * self.head_dim
        joined = tf.reshape(attended, (-1, tf.shape(attended)[1], width))
        return tf.tensordot(joined, self.output_kernel, 1)
