# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import ClassVar

import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema, History, length_key
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
from models.layers.transformer import Encoder
from models.layers.transformer_parts import BlockOptions
from models.limits import Repeats, Several, Width

FIRST_SIZE = 0.1
"""Of the numbers of F_T at the start. At 1, that of a normalised vector, what it says by chance
drowns the small embeddings beside it; at theirs, 0.01, it is learnt too late."""


class SASRecConfig(EmbeddingMLPConfig):
    """Options of `SASRec`."""

    encoder_layers: Repeats = Field(2, description="Number of self-attention blocks.")
    num_heads: Several = Field(1, description="Heads of each self-attention.")
    feed_forward_units: Width = Field(
        64, description="Width inside each block's feed-forward part."
    )
    dropout_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share dropped in training of attention weights, of what each part of a "
        "block adds, and of hidden values.",
    )


class SASRec(EmbeddingMLP):
    """Self-attentive sequential recommendation: what the newest event has seen meets the candidate.

    F = Encoder(e_t + p_{rank of t}), causal;
    ŷ = MLP([categorical embeddings; pooled lists; F_T; numbers]) + Σ F_T · v_A

    e_t puts all channels of event t side by side: those that repeat something of the candidate
    first, in the order of its embeddings v_A, which meet as many numbers of F_T. The sum is over
    histories; of an empty one F_T is zero. Every history has an encoder of its own.

    Args, call arguments and returns: see `EmbeddingMLP`.

    References:
        Kang & McAuley, Self-Attentive Sequential Recommendation, ICDM 2018, §III-A (learned
        positions), §III-B, Eq. 2 to 4 (causal attention, feed-forward), §III-C (blocks with
        normalisation before each part), §III-D, Eq. 6 (F_T · v_A).
    Differs from the paper: it is one score of a row, trained on clicks, with an MLP of the other
        features beside F_T · v_A; places count from the newest event, as they do in the paper's
        sequences, which are padded in front; a last normalisation as in the authors' code, whose γ
        starts at 0.1, not 1; heads are joined by a matrix W^O; feed-forward parts as wide as told,
        not as events. Embeddings are not dropped; dropout is off by default (the paper: 0.2 or
        0.5).
    """

    symbols: ClassVar[Mapping[str, str]] = {
        **EmbeddingMLP.symbols,
        "E": "weights of each history's encoder: layers of 4 e h ⌈e / h⌉ of h heads, 2 e u + u + e "
        "of u feed-forward units, and 4 e of normalisations; e for each of max_items; 2 e; e "
        "numbers of an event: k per channel",
    }

    def __init__(
        self, schema: FeatureSchema, config: SASRecConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        options = BlockOptions(
            config.num_heads, config.feed_forward_units, "pre", dropout_rate=config.dropout_rate
        )
        self.encoder_layers = config.encoder_layers
        self.positions = {
            h.name: RecencyEncoding(
                len(h.channels) * config.embedding_dim,
                "learned",
                h.max_items,
                config.initial_stddev,
            )
            for h in self.schema.histories
        }
        self.encoders = {
            h.name: Encoder(config.encoder_layers, options, causal=True, last_gain=FIRST_SIZE)
            for h in self.schema.histories
        }

    @staticmethod
    def parameter_formula(config: SASRecConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return f"{EmbeddingMLP.parameter_formula(config)} + E"

    @staticmethod
    def problems(schema: FeatureSchema, config: EmbeddingMLPConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_targets("sasrec", schema)

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        # F_T is handed on beside the looked-up rows, for `history_vector`
        extended = {**embedded, **self._newest(embedded, batch, training)}
        deep = super().logits(extended, batch, training)
        return deep + tf.cast(self._matches(extended), deep.dtype)

    def terms(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the MLP's output and Σ F_T · v_A, "match"; see `CTRModel.terms`."""
        embedded = self.embeddings(batch)
        match = self._matches({**embedded, **self._newest(embedded, batch, training=False)})
        return {"mlp": self(batch, training=False) - match, "match": match}

    def history_vector(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tf.Tensor:
        """Return F_T of the history."""
        return embedded[_key(history)]

    def history_weights(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the newest event's attention in the last block; see `CTRModel.history_weights`."""
        embedded = self.embeddings(batch)
        weights = {}
        for history in self.schema.histories:
            tokens, mask = self._tokens(history, embedded, batch)
            _, attention = self.encoders[history.name](tokens, mask, return_weights=True)
            by_event = tf.transpose(attention, (0, 2, 1, 3))
            weights[history.name] = tf.gather(by_event, _last(history, batch), batch_dims=1)
        return weights

    @property
    def weights_meaning(self) -> WeightsMeaning | None:
        """Say whose attention it is; see `CTRModel.weights_meaning`."""
        mixed = (
            "" if self.encoder_layers == 1 else " The blocks before have mixed each event with "
            "older ones, so that a place stands for more than its own event."
        )  # fmt: skip
        return WeightsMeaning(
            f"Self-attention of {last_of(self.encoder_layers, 'blocks')}, from the newest event to "
            "itself and to all before it, by head. A head's weights are a soft-max and add up to "
            "1. The candidate does not enter them: they are the same for every candidate, which "
            f"meets only what comes out at the newest event.{mixed}",
            line="head",
        )

    def _newest(self, embedded: Tensors, batch: Tensors, training: bool) -> dict[str, tf.Tensor]:
        """Return F_T (batch, e) of every history by `_key`."""
        newest = {}
        for history in self.schema.histories:
            tokens, mask = self._tokens(history, embedded, batch)
            encoded = self.encoders[history.name](tokens, mask, training=training)
            vector = tf.gather(encoded, _last(history, batch), batch_dims=1)
            some = batch[length_key(history.name)] > 0
            newest[_key(history)] = tf.where(some[:, tf.newaxis], vector, 0.0)
        return newest

    def _matches(self, embedded: Tensors) -> tf.Tensor:
        """Return Σ F_T · v_A over histories, (batch,), of rows with F_T by history."""
        matches = []
        for history in self.schema.histories:
            query, _ = compared(history, embedded)
            newest = tf.cast(embedded[_key(history)], query.dtype)[:, : query.shape[-1]]
            matches.append(tf.reduce_sum(newest * query, axis=-1))
        return tf.add_n(matches)

    def _tokens(
        self, history: History, embedded: Tensors, batch: Tensors
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return e_t + p_{rank of t} (batch, items, e), and which are real."""
        _, events = compared(history, embedded)
        mask = history_mask(history, batch)
        positions = self.positions[history.name](recency_ranks(mask))
        return events + tf.cast(positions, events.dtype), mask


def _last(history: History, batch: Tensors) -> tf.Tensor:
    """Return the place of the newest event, int32 (batch,); 0 of an empty history."""
    return tf.maximum(batch[length_key(history.name)] - 1, 0)


def _key(history: History) -> str:
    """Return a key that no column has."""
    return f"newest of {history.name}"
