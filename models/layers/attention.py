# SPDX-License-Identifier: Apache-2.0
"""Attention-weighted pooling, and DIN's activation unit; other scorers: `scorers`."""

from collections.abc import Sequence
from typing import Literal

import keras
import tensorflow as tf

from models.layers.activations import Activation, activation_layer
from models.layers.masking import masked_softmax, weighted_sum
from models.layers.mlp import MLP, MLPOptions
from models.layers.scorers import MultiHeadScorer, Scorer, Shape, heads_initializer

Normalisation = Literal["softmax", "sigmoid", "none"]


class AttentionPooling(keras.layers.Layer):
    """One vector out of many: Σ_t a_t v_t with a = normalise(score(q, k_t)).

    With a scorer of several heads, each has weights a^h of its own, and heads are joined:

        [Σ_t a^1_t v_t W_1^V; …; Σ_t a^H_t v_t W_H^V] W^O

    Args:
        scorer: Says how well a key fits the query.
        normalisation: "softmax" over the real items, "sigmoid" of each score, or "none".

    Call arguments:
        query: Float (batch, dim).
        keys: Float (batch, items, dim).
        mask: bool (batch, items), True at real items; padding gets weight 0, and a row without
            items the zero vector.
        values: Float (batch, items, values' dim); the keys when left out.
        places: Where the real items are, if known; see `Scorer`.
        return_weights: Whether to return the weights as well.
        training: Passed on to the scorer.

    Returns:
        Float (batch, values' dim); with `return_weights` also the weights (batch, items), or
        (batch, heads, items).

    References:
        For several heads: Vaswani et al., Attention Is All You Need, NIPS 2017, §3.2.2.
    Differs from the paper: W^V acts after the sum over items, which is the same number.
    """

    def __init__(self, scorer: Scorer, normalisation: Normalisation = "softmax") -> None:
        super().__init__()
        self.scorer = scorer
        self.normalisation = normalisation

    def build(
        self, query_shape: Shape, keys_shape: Shape, values_shape: Shape | None = None
    ) -> None:
        """Create the scorer's weights, as it may serve several poolings, and W^V, W^O of heads."""
        if not self.scorer.built:
            self.scorer.build(query_shape, keys_shape)
        if isinstance(self.scorer, MultiHeadScorer):
            heads, units = self.scorer.num_heads, self.scorer.head_dim
            dim = (values_shape or keys_shape)[-1]
            self.value_kernel, self.output_kernel = (
                self.add_weight(
                    name=f"{name}_kernel",
                    shape=shape,
                    initializer=heads_initializer(dim, heads, units),
                )
                for name, shape in (
                    ("value", (dim, heads, units)),
                    ("output", (heads, units, dim)),
                )
            )

    def compute_mask(self, *_: tf.Tensor) -> None:
        """Return none: what comes out has no items to mask."""

    def call(
        self,
        query: tf.Tensor,
        keys: tf.Tensor,
        mask: tf.Tensor,
        values: tf.Tensor | None = None,
        *,
        places: tf.Tensor | None = None,
        return_weights: bool = False,
        training: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
        """Pool the values; see the class."""
        scores = self.scorer(query, keys, mask=mask, places=places, training=training)
        values = keys if values is None else values
        if self.scorer.num_heads is None:
            weights = self._normalise(scores, mask)
            pooled = weighted_sum(values, weights)
        else:
            weights = self._normalise(scores, mask[:, tf.newaxis])
            by_head = tf.einsum("bht,btv->bhv", weights, values)
            projected = tf.einsum("bhv,vhu->bhu", by_head, self.value_kernel)
            pooled = tf.einsum("bhu,huv->bv", projected, self.output_kernel)
        return (pooled, weights) if return_weights else pooled

    def _normalise(self, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        match self.normalisation:
            case "softmax":
                return masked_softmax(scores, mask)
            case "sigmoid":
                return tf.where(mask, tf.sigmoid(scores), 0.0)
            case _:
                return tf.where(mask, scores, 0.0)


class ActivationUnit(Scorer):
    """DIN's local activation unit: how well a past event fits the candidate.

    a(q, k) = MLP([q; k; q - k; q ⊙ k]), a number, without normalisation.

    With the first layer's matrix cut into W_q, W_k, W_d, W_p by those four parts,

        [q; k; q - k; q ⊙ k] W = q (W_q + W_d) + k (W_k - W_d) + (q ⊙ k) W_p,

    which multiplies q once per row instead of once per item and never builds the concatenation.

    Args:
        attention_units: Width of each hidden layer, at least one.
        activation: Of the hidden layers.

    Call arguments and returns: see `Scorer`. Keys may be wider than the query: their numbers
    beyond `dim` have no counterpart to be compared with, and enter the second part only.

    Raises:
        ValueError: The query is wider than the keys.

    References:
        Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018, §4.3,
        Eq. 3 and the unit in Fig. 2.
    Differs from the paper: the paper says that q, k and their "out product" enter; q - k and q ⊙ k
        are what its authors' code feeds. Fig. 2 has one hidden layer of 36, their code 80 and 40.
        The last bias starts at ½, so that without normalisation events are summed from the first
        step on, as in the base model, and the unit learns whom to favour; scores around 0 would let
        next to nothing of a history through, and little be learnt from it.
    """

    def __init__(
        self, attention_units: Sequence[int] = (80, 40), activation: Activation = "dice"
    ) -> None:
        super().__init__()
        self.first_units = attention_units[0]
        self.activation = activation_layer(activation)
        rest = MLPOptions(hidden_units=tuple(attention_units[1:]), activation=activation)
        self.rest = MLP(rest, output_units=1, output_bias=0.5)

    def build(self, query_shape: Shape, keys_shape: Shape) -> None:
        """Create the weights of every layer."""
        dim, keys_dim = query_shape[-1], keys_shape[-1]
        if dim is None or keys_dim is None or dim > keys_dim:
            raise ValueError(f"a query of {dim} is wider than its keys of {keys_dim}")
        self.parts = (dim, keys_dim, dim, dim)
        self.kernel = self.add_weight(
            name="kernel", shape=(sum(self.parts), self.first_units), initializer="glorot_uniform"
        )
        self.bias = self.add_weight(name="bias", shape=(self.first_units,), initializer="zeros")
        hidden = (*keys_shape[:-1], self.first_units)
        self.activation.build(hidden)
        self.rest.build(hidden)

    def call(
        self,
        query: tf.Tensor,
        keys: tf.Tensor,
        mask: tf.Tensor | None = None,
        places: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Return scores (batch, items); see the class."""
        if places is None or mask is None:
            return self._scores(query[:, tf.newaxis], keys, mask, training)
        items = tf.shape(keys)[1]
        rows = places // items
        real = tf.range(tf.shape(places)[0]) < tf.reduce_sum(tf.cast(mask, tf.int32))
        chosen = tf.gather(tf.reshape(keys, [-1, keys.shape[-1]]), places)
        scores = self._scores(query, chosen, real, training, rows)
        scores = tf.where(real, scores, 0.0)
        flat = tf.math.unsorted_segment_sum(scores, places, tf.size(mask))
        return tf.reshape(flat, tf.shape(mask))

    def _scores(
        self,
        query: tf.Tensor,
        keys: tf.Tensor,
        mask: tf.Tensor | None,
        training: bool,
        rows: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return a score for each key (…, keys' dim); `rows` says whose query a key meets."""
        dim, keys_dim, *_ = self.parts
        w_q, w_k, w_d, w_p = tf.split(tf.convert_to_tensor(self.kernel), self.parts)
        w_k -= tf.pad(w_d, [[0, keys_dim - dim], [0, 0]])
        own = tf.tensordot(query, w_q + w_d, 1) + self.bias  # once per row, not per item
        if rows is not None:
            own, query = tf.gather(own, rows), tf.gather(query, rows)
        product = query * keys[..., :dim]
        x = own + tf.tensordot(keys, w_k, 1) + tf.tensordot(product, w_p, 1)  # (…, U)
        x = self.activation(x, mask=mask, training=training)
        return tf.squeeze(self.rest(x, mask=mask, training=training), axis=-1)
