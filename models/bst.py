# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import ClassVar

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
from models.history_weights import UP_TO_ONE, WeightsMeaning, last_of
from models.layers.activations import Activation
from models.layers.masking import masked_mean
from models.layers.mlp import Units
from models.layers.positions import RecencyEncoding, recency_ranks
from models.layers.transformer import Encoder
from models.layers.transformer_parts import BlockOptions
from models.limits import Repeats, Several, Width


class BSTConfig(EmbeddingMLPConfig):
    """Options of `BST`."""

    hidden_units: Units = Field(
        (1024, 512, 256), description="Width of each hidden layer of the MLP."
    )
    activation: Activation = Field("leaky_relu", description="Of the MLP's hidden layers.")
    transformer_layers: Repeats = Field(1, description="Number of transformer layers.")
    num_heads: Several = Field(8, description="Heads of each self-attention.")
    feed_forward_units: Width = Field(
        64, description="Width inside each transformer layer's feed-forward part."
    )
    dropout_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share dropped in training of attention weights, of what each part of a "
        "transformer layer adds, and of hidden values.",
    )


class BST(EmbeddingMLP):
    """Behavior Sequence Transformer: events and candidate attend to each other.

    E = [candidate; e_1; …; e_T];    S = LayerNorm(E + MultiHead(E));
    F = LayerNorm(S + LeakyReLU(S W_1 + b_1) W_2 + b_2), and so on for each layer;
    ŷ = MLP([categorical embeddings; pooled lists; F_candidate; mean_t F_t; numbers])

    An event's token puts all its channels side by side, the candidate's its embeddings that they
    repeat, and for the other channels a learned vector. A token ends with its position: the time
    from the event to now if the history has a channel without target that is called
    `<history>_gap`, else a learned vector of its recency rank, of which the candidate has one to
    itself. Every history has a transformer of its own.

    Args, call arguments and returns: see `EmbeddingMLP`.

    References:
        Chen et al., Behavior Sequence Transformer for E-commerce Recommendation in Alibaba,
        DLP-KDD 2019, §2.1 (positions), §2.2, Eq. 3 to 6 (transformer layer), §2.3 (MLP); Table 2
        for 8 heads, one layer, and 1024, 512, 256.
    Differs from the paper: the outputs of all places are not put side by side, which would make
        the MLP depend on the longest history; the candidate's output and the mean of the events'
        are. Without a gap channel positions are recency ranks. Dropout is off by default (the
        paper: 0.2).
    """

    symbols: ClassVar[Mapping[str, str]] = {
        **EmbeddingMLP.symbols,
        "I": "inputs of the MLP: k for each categorical and list column, 1 per number, and 2 e for "
        "each history; e numbers of a token: k for each channel, and k for the rank without a gap "
        "channel",
        "B": "weights of each history's transformer: layers of 4 e h ⌈e / h⌉ of h heads, 2 e u + "
        "u + e of u feed-forward units, and 4 e of the normalisations; k for each channel without "
        "target; k for each rank, one more than max_items, without a gap channel",
    }

    def __init__(
        self, schema: FeatureSchema, config: BSTConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        options = BlockOptions(
            config.num_heads,
            config.feed_forward_units,
            activation="leaky_relu",
            dropout_rate=config.dropout_rate,
        )
        self.transformer_layers = config.transformer_layers
        self.tokens = {
            history.name: TargetAndEvents(
                None if history.time_gap else config.embedding_dim,
                history.max_items,
                config.initial_stddev,
            )
            for history in self.schema.histories
        }
        self.encoders = {
            history.name: Encoder(config.transformer_layers, options)
            for history in self.schema.histories
        }

    @staticmethod
    def parameter_formula(config: BSTConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return f"{EmbeddingMLP.parameter_formula(config)} + B"

    @staticmethod
    def problems(schema: FeatureSchema, config: EmbeddingMLPConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_targets("bst", schema)

    def history_vector(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tf.Tensor:
        """Return the candidate's output and the mean of the events'."""
        mask = history_mask(history, batch)
        tokens, real = self._tokens(history, embedded, mask)
        encoded = self.encoders[history.name](tokens, real, training=training)
        return tf.concat([encoded[:, 0], masked_mean(encoded[:, 1:], mask)], axis=-1)

    def history_weights(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the candidate's attention in the last layer; see `CTRModel.history_weights`."""
        embedded = self.embeddings(batch)
        weights = {}
        for history in self.schema.histories:
            tokens, real = self._tokens(history, embedded, history_mask(history, batch))
            _, attention = self.encoders[history.name](tokens, real, return_weights=True)
            weights[history.name] = attention[:, :, 0, 1:]
        return weights

    @property
    def weights_meaning(self) -> WeightsMeaning | None:
        """Say whose attention it is; see `CTRModel.weights_meaning`."""
        mixed = (
            "" if self.transformer_layers == 1 else " By then the layers before have mixed the "
            "events, so that a place stands for more than its own event."
        )  # fmt: skip
        return WeightsMeaning(
            f"Self-attention of {last_of(self.transformer_layers, 'transformer layers')}, from the "
            "candidate's place to each event, by head. A head's weights over events and candidate "
            "are a soft-max: what is missing from 1 is the candidate's attention to itself."
            f"{mixed} The score also uses the mean of what the layer makes of the events "
            "themselves, of which these weights say nothing.",
            line="head",
            total=UP_TO_ONE,
        )

    def _tokens(
        self, history: History, embedded: Tensors, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the tokens (batch, 1 + items, e), the candidate's first, and which are real."""
        query, events = compared(history, embedded)
        tokens = self.tokens[history.name](query, events, mask)
        return tokens, tf.pad(mask, [[0, 0], [1, 0]], constant_values=True)


class TargetAndEvents(keras.layers.Layer):
    """The candidate's token, then those of the events.

    Args:
        rank_dim: Width of the encoding of ranks at the end of each token; None for none.
        max_items: Ranks beyond it share one encoding.
        initial_stddev: Standard deviation of the learned vectors' coordinates at the start.

    Call arguments:
        query: Float (batch, dim).
        events: Float (batch, items, events' dim), whose first numbers are those of the query.
        mask: bool (batch, items), True at real items.

    Returns:
        Float (batch, 1 + items, events' dim + rank_dim).
    """

    def __init__(self, rank_dim: int | None, max_items: int, initial_stddev: float) -> None:
        super().__init__()
        self.initializer = keras.initializers.RandomNormal(stddev=initial_stddev)
        self.ranks = None
        if rank_dim:
            self.ranks = RecencyEncoding(rank_dim, "learned", max_items + 1, initial_stddev)

    def build(self, query_shape: Sequence[int | None], events_shape: Sequence[int | None]) -> None:
        """Create what the candidate has for the channels that repeat nothing of it."""
        self.missing = None
        missing = (events_shape[-1] or 0) - (query_shape[-1] or 0)
        if missing:
            self.missing = self.add_weight(
                name="missing", shape=(missing,), initializer=self.initializer
            )
        if self.ranks:
            self.ranks.build(events_shape[:-1])

    def call(self, query: tf.Tensor, events: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Return the tokens; see the class."""
        parts = [query]
        if self.missing is not None:
            missing = tf.convert_to_tensor(self.missing)
            parts.append(tf.broadcast_to(missing, (tf.shape(query)[0], missing.shape[0])))
        tokens = tf.concat([tf.concat(parts, axis=-1)[:, tf.newaxis], events], axis=1)
        if self.ranks is None:
            return tokens
        ranks = tf.pad(recency_ranks(mask) + 1, [[0, 0], [1, 0]])  # the candidate has 0
        return tf.concat([tokens, self.ranks(ranks)], axis=-1)
