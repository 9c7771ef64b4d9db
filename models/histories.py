# SPDX-License-Identifier: Apache-2.0
"""What models of histories share: options, the MLP behind them, and how a history is seen."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import keras
import tensorflow as tf
from pydantic import Field

from features.schema import PADDING, FeatureSchema, History, length_key
from models.ctr_model import CTRModel, ModelConfig, Tensors, stack_numeric
from models.layers.activations import Activation
from models.layers.embeddings import EmbeddingTables
from models.layers.masking import ListPooling, length_mask, pool_list
from models.layers.mlp import MLP, MLPOptions
from models.limits import Width


class EmbeddingMLPConfig(ModelConfig, MLPOptions):
    """Options of every `EmbeddingMLP`."""

    embedding_dim: Width = Field(16, description="Length of each embedding.")
    initial_stddev: float = Field(
        0.01, gt=0, description="Standard deviation of the embeddings' coordinates at the start."
    )
    list_pooling: ListPooling = Field(
        "mean",
        description="How a list enters: the mean (Σ w e / Σ |w|), sum or largest of its items.",
    )
    activation: Activation = Field("dice", description="Of the MLP's hidden layers.")


class EmbeddingMLP(CTRModel):
    """Embedding and MLP: what `Base`, `DIN` and their kin share.

    ŷ = MLP([categorical embeddings; pooled lists; histories; numbers])

    A subclass writes `history_vector`, which makes one vector of a history of any length. Where a
    row of the tables holds several embeddings of an id, the MLP gets the first of them.

    Args:
        schema: Declared features; `config.features` picks from them.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.
    """

    numeric_input: ClassVar[Literal["fields", "dense"]] = "dense"
    symbols: ClassVar[Mapping[str, str]] = {
        "I": "inputs of the MLP: k for each categorical, list and history column, 1 per number",
    }

    def __init__(
        self,
        schema: FeatureSchema,
        config: EmbeddingMLPConfig,
        slot_values: Sequence[float] = (),
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.dim = config.embedding_dim
        self.list_pooling = config.list_pooling
        self.embeddings = EmbeddingTables(
            self.schema,
            self.row_width(config),
            keras.initializers.RandomNormal(stddev=config.initial_stddev),
            slot_values,
        )
        self.mlp = MLP(config, output_units=1)

    @staticmethod
    def row_width(config: Any) -> int:
        """Return how many numbers a row of the tables holds: one embedding."""
        return config.embedding_dim

    @staticmethod
    def parameter_formula(config: Any) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return "R k + M(I)"

    @staticmethod
    def problems(schema: FeatureSchema, config: Any) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return [] if schema.features else ["there is no feature; name at least one in `features:`"]

    def call(self, batch: Tensors, training: bool = False) -> tf.Tensor:
        """Return logits (batch,); see `CTRModel`. Histories may be of width 0."""
        return super().call(at_least_one_place(self.schema.histories, batch), training)

    def terms(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the MLP's output, the only part; see `CTRModel.terms`."""
        return {"mlp": self(batch, training=False)}

    def history_vector(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tf.Tensor:
        """Return one vector of the history's events, float (batch, any width)."""
        raise NotImplementedError

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        parts = [embedded[feature.name][:, : self.dim] for feature in self.schema.categorical]
        for feature in self.schema.lists:
            rows = embedded[feature.name][..., : self.dim]
            parts.append(pool_list(feature, rows, batch, self.list_pooling))
        for history in self.schema.histories:
            parts.append(self.history_vector(history, embedded, batch, training))
        if self.schema.numeric:
            parts.append(stack_numeric(self.schema, batch))
        # a half precision policy pools in half, and numbers stay whole
        inputs = tf.concat([tf.cast(part, self.dtype) for part in parts], axis=1)
        outputs = self.mlp(inputs, training=training)
        return tf.cast(tf.squeeze(outputs, axis=1), self.dtype)


def history_mask(history: History, batch: Tensors) -> tf.Tensor:
    """Return which places of a history hold events, bool (batch, items)."""
    places = tf.shape(batch[history.channels[0].name])[1]
    return length_mask(batch[length_key(history.name)], places)


def at_least_one_place(histories: Sequence[History], batch: Tensors) -> Tensors:
    """Return the batch with histories of width 0 widened to one place of padding.

    Layers then need no case for what has no newest event, no best one and no step.

    Args:
        histories: Those of the model.
        batch: Ids of their channels, int32 (batch, items), where items may be 0, and the rest.
    """
    widened = dict(batch)
    for history in histories:
        for channel in history.channels:
            ids = batch[channel.name]
            if not ids.shape[1]:  # none, or not known before the graph runs
                missing = tf.maximum(1 - tf.shape(ids)[1], 0)
                wider = tf.pad(ids, [[0, 0], [0, missing]], constant_values=PADDING)
                widened[channel.name] = tf.ensure_shape(wider, [ids.shape[0], None])
    return widened


def places_key(history: str) -> str:
    """Return the batch key of the flat places of a history's real events; see `Scorer`.

    The key is a help for speed and may be absent.
    """
    return f"{history}_places"


def compared(history: History, embedded: Tensors) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the candidate v_A (batch, dim) and the events (batch, items, events' dim).

    v_A puts side by side the candidate's embeddings that the history's channels repeat, an event
    all its channels: those that repeat something first and in the order of v_A, then the rest.
    """
    channels = sorted(history.channels, key=lambda channel: channel.target is None)
    targets = [channel.target for channel in channels if channel.target]
    query = tf.concat([embedded[target] for target in targets], axis=-1)
    return query, tf.concat([embedded[channel.name] for channel in channels], axis=-1)


def identifying_channel(schema: FeatureSchema, history: History) -> str:
    """Return the channel whose id tells events apart: that of the largest table the candidate has.

    Of equal tables it is the first.
    """
    rows = {table.name: table.rows for table in schema.tables}
    targeted = [channel for channel in history.channels if channel.target]
    return max(targeted, key=lambda channel: rows[channel.table]).name


def problems_of_targets(kind: str, schema: FeatureSchema) -> list[str]:
    """Return what keeps a model from comparing events with the candidate; empty if nothing does.

    Args:
        kind: Of the model, for the words.
        schema: Its features.
    """
    if not schema.histories:
        return [f"{kind} needs a history feature and there is none; declare one or use base"]
    candidate = {feature.name for feature in schema.categorical}
    problems = []
    for history in schema.histories:
        targets = [channel.target for channel in history.channels if channel.target]
        if not targets:
            problems.append(
                f"history `{history.name}`: no channel has a `target:`, so {kind} has nothing of "
                "the candidate to compare its events with; set one or use base"
            )
        problems += [
            f"history `{history.name}`: its target `{target}` is not among the model's "
            "categorical features; add it to `features:` or use base"
            for target in targets
            if target not in candidate
        ]
    return problems
