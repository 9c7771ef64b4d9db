# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import keras
import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema, History
from models.ctr_model import Tensors
from models.histories import (
    EmbeddingMLP,
    EmbeddingMLPConfig,
    compared,
    history_mask,
    problems_of_targets,
)
from models.history_weights import WeightsMeaning, last_of
from models.layers.positions import RecencyEncoding, recency_ranks
from models.layers.scorers import Shape, heads_initializer
from models.layers.transformer import Decoder, Encoder
from models.layers.transformer_parts import BlockOptions, Order
from models.limits import Repeats, Several, Width


class TransformerConfig(EmbeddingMLPConfig):
    """Options of `Transformer`."""

    encoder_layers: Repeats = Field(2, description="Number of encoder layers.")
    decoder_layers: Repeats = Field(2, description="Number of decoder layers.")
    num_heads: Several = Field(8, description="Heads of each attention.")
    feed_forward_units: Width = Field(
        64, description="Width inside each layer's feed-forward part."
    )
    order: Order = Field(
        "post", description="Whether parts of a layer are normalised after or before they act."
    )
    positions: Literal["sinusoidal", "learned", "none"] = Field(
        "sinusoidal", description="How an event's recency rank enters; with none, order is unseen."
    )
    causal: bool = Field(
        False, description="Whether events look at themselves and earlier ones only."
    )
    dropout_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share dropped in training of attention weights, of what each part of a "
        "layer adds, and of hidden values.",
    )


class Transformer(EmbeddingMLP):
    """Transformer: the history is encoded, and the candidate's features decode it.

    X = √e ([e_1; …; e_T] + positions);    Z = Encoder(X);
    y_i = v_i W_i + b_i of the candidate's feature i;    Y = Decoder(y_0, y_1 … y_n, Z);
    ŷ = MLP([categorical embeddings; pooled lists; Y_1; …; Y_n; numbers])

    e_t puts all channels of event t side by side, e numbers; v_i is the embedding of the i-th of
    the n features of the candidate that they repeat. y_0 is a learned start, so that a single
    feature has something to attend to; Y_i sees y_0 … y_i and all of Z. Every history has a
    transformer of its own.

    Args, call arguments and returns: see `EmbeddingMLP`.

    References:
        Vaswani et al., Attention Is All You Need, NIPS 2017, §3; order "pre": Xiong et al., On
        Layer Normalization in the Transformer Architecture, ICML 2020.
    Differs from the paper: the decoder's tokens are features of the candidate, whose embeddings a
        matrix each makes as wide as events, in place of shifted outputs; places count from the
        newest event, and sinusoids are multiplied by a learned number, which starts at
        `initial_stddev`. Two layers for six, 64 feed-forward units for 2048; dropout is off by
        default (the paper: 0.1), and tokens themselves are not dropped (the paper's §5.4 drops
        them, too).
    """

    symbols: ClassVar[Mapping[str, str]] = {
        **EmbeddingMLP.symbols,
        "I": "inputs of the MLP: k for each categorical and list column, 1 per number, and n e for "
        "each history; n features that its channels repeat, e numbers of an event: k per channel",
        "E": "weights of each history's encoder: layers of 4 e h ⌈e / h⌉ of h heads, 2 e u + u + e "
        "of u feed-forward units, and 4 e of normalisations; with learned positions e for each of "
        "max_items, with sinusoidal ones 1; with order pre 2 e",
        "V": "weights of each history's decoder: n (k + 1) e + e of its tokens; layers as the "
        "encoder's, with twice the attention and 6 e of normalisations; with order pre 2 e",
    }

    def __init__(
        self, schema: FeatureSchema, config: TransformerConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        options = BlockOptions(
            config.num_heads,
            config.feed_forward_units,
            config.order,
            dropout_rate=config.dropout_rate,
        )
        self.decoder_layers = config.decoder_layers
        names = [history.name for history in self.schema.histories]
        self.positions = {
            h.name: RecencyEncoding(
                len(h.channels) * config.embedding_dim,
                config.positions,
                h.max_items,
                config.initial_stddev,
            )
            for h in self.schema.histories
            if config.positions != "none"
        }
        self.encoders = {
            name: Encoder(config.encoder_layers, options, config.causal) for name in names
        }
        self.targets = {
            h.name: TargetTokens(len(_targets(h)), len(h.channels) * config.embedding_dim)
            for h in self.schema.histories
        }
        self.decoders = {name: Decoder(config.decoder_layers, options) for name in names}

    @staticmethod
    def parameter_formula(config: TransformerConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return f"{EmbeddingMLP.parameter_formula(config)} + E + V"

    @staticmethod
    def problems(schema: FeatureSchema, config: EmbeddingMLPConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_targets("transformer", schema)

    def history_vector(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tf.Tensor:
        """Return Y_1 … Y_n side by side."""
        decoded, _ = self._decoded(history, embedded, batch, training)
        return tf.reshape(decoded, (-1, decoded.shape[1] * decoded.shape[2]))

    def history_weights(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the last decoder layer's attention, the mean over the candidate's features.

        See `CTRModel.history_weights`.
        """
        embedded = self.embeddings(batch)
        return {
            h.name: tf.reduce_mean(self._decoded(h, embedded, batch)[1], axis=2)
            for h in self.schema.histories
        }

    @property
    def weights_meaning(self) -> WeightsMeaning | None:
        """Say whose attention it is; see `CTRModel.weights_meaning`."""
        return WeightsMeaning(
            f"Cross-attention of {last_of(self.decoder_layers, 'decoder layers')}, from the "
            "candidate's features to the encoded events, by head; where the history repeats "
            "several features of the candidate, the mean over them. A head's weights are a "
            "soft-max and add up to 1. The encoder has mixed the events by self-attention before, "
            "so that a place stands for more than its own event.",
            line="head",
        )

    def _decoded(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return Y_1 … Y_n (batch, n, e) and their attention (batch, heads, n, items)."""
        _, events = compared(history, embedded)
        mask = history_mask(history, batch)
        if history.name in self.positions:
            encoding = self.positions[history.name](recency_ranks(mask))
            events += tf.cast(encoding, events.dtype)
        tokens = events * events.shape[-1] ** 0.5
        encoded = self.encoders[history.name](tokens, mask, training=training)
        target = tf.stack([embedded[name] for name in _targets(history)], axis=1)
        queries = self.targets[history.name](target)
        decoded, weights = self.decoders[history.name](queries, encoded, mask, training=training)
        return decoded[:, 1:], weights[:, :, 1:]


def _targets(history: History) -> list[str]:
    """Return the candidate's features that the channels repeat."""
    return [channel.target for channel in history.channels if channel.target]


class TargetTokens(keras.layers.Layer):
    """A learned start, and a token for each feature of the candidate: v_i W_i + b_i.

    Args:
        count: Number of features, n.
        units: Width of a token.

    Call arguments:
        vectors: v, float (batch, n, dim).

    Returns:
        Float (batch, 1 + n, units).
    """

    def __init__(self, count: int, units: int) -> None:
        super().__init__()
        self.count = count
        self.units = units

    def build(self, vectors_shape: Shape) -> None:
        """Create the start, and W and b of each feature."""
        dim = vectors_shape[-1]
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.count, dim, self.units),
            initializer=heads_initializer(dim, 1, self.units),
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.count, self.units), initializer="zeros"
        )
        self.start = self.add_weight(name="start", shape=(self.units,), initializer="random_normal")

    def call(self, vectors: tf.Tensor) -> tf.Tensor:
        """Return the tokens; see the class."""
        tokens = tf.einsum("bnd,ndu->bnu", vectors, self.kernel) + self.bias
        start = tf.broadcast_to(self.start, tf.shape(tokens[:, :1]))
        return tf.concat([start, tokens], axis=1)
