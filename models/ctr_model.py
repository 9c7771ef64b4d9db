# SPDX-License-Identifier: Apache-2.0
"""The base class of every model: look up rows, then compute logits from them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import keras
import tensorflow as tf
from pydantic import Field, field_validator

from features.options import Options
from features.schema import FeatureSchema
from models.history_weights import WeightsMeaning
from models.layers.distinct_rows import take_columns
from models.layers.embeddings import EmbeddingTables

Tensors = Mapping[str, tf.Tensor]


class ModelConfig(Options):
    """What every model's Config has."""

    features: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="Features that the model uses; all declared ones when left out.",
    )

    @field_validator("features")
    @classmethod
    def _each_once(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        names = value or ()
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"names {', '.join(repeated)} twice; name each feature once")
        return value


class CTRModel(keras.Model):
    """A click model: `model(batch, training=False) -> logits`.

    Subclasses set `embeddings` and write `logits`, `problems` and `parameter_formula`. Looking up
    and computing are apart because training looks rows up once per distinct id and differentiates
    with respect to the rows.

    Args:
        schema: Declared features; `config.features` picks from them.
        config: The options of the model.
        slot_values: Initial optimiser slots of the embedding rows; none for predictions.

    Call arguments:
        batch: Tensors by batch key as `features.schema` describes them, int32 ids and lengths,
            float32 numbers, (batch,) or (batch, items).
        training: Whether dropout and batch statistics are on.

    Returns:
        Logits, float32 (batch,); the sigmoid is applied once, outside.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.
    """

    embeddings: EmbeddingTables
    linear_columns = 0
    """How many numbers of a row, its last ones, are weights of the linear part."""
    numeric_input: ClassVar[Literal["fields", "dense"]] = "fields"
    """How numbers enter a model whose Config has no `numeric_input`."""
    pair_weight_name: ClassVar[Literal["attention", "strength"] | None] = None
    """What `pair_weights` are: attention adds up to 1 over a row's pairs, a strength is any."""
    forms_pairs: ClassVar[bool] = False
    """Whether, beside a linear part, it has pairs of fields alone: one field makes it `LR`."""
    takes_places: ClassVar[bool] = False
    """Whether a batch may say where the real events of histories are; see `places_key`."""
    symbols: ClassVar[Mapping[str, str]] = {}
    """What the model's own letters in `parameter_formula` mean; see also `models.sizes.SYMBOLS`."""

    def __init__(
        self, schema: FeatureSchema, config: ModelConfig, slot_values: Sequence[float] = ()
    ) -> None:
        # a half precision policy would cast whole tables at each call
        super().__init__(dtype=keras.config.floatx())
        self.schema = schema if config.features is None else schema.select(config.features)
        self.slot_values = tuple(slot_values)
        if problems := self.problems(self.schema, config):
            raise ValueError("; ".join(problems))

    @staticmethod
    def problems(schema: FeatureSchema, config: Any) -> list[str]:
        """Return what of the features does not fit, in plain words; empty if all does."""
        raise NotImplementedError

    @staticmethod
    def parameter_formula(config: Any) -> str:
        """Return the number of trained weights as a formula, in numbers, letters, + - · / and M( ).

        Two factors side by side are multiplied. Letters: `models.sizes.SYMBOLS` and `symbols`.

        Args:
            config: Its options that decide the structure choose the terms.
        """
        raise NotImplementedError

    def call(self, batch: Tensors, training: bool = False) -> tf.Tensor:
        """Return logits (batch,); see the class."""
        batch = self.narrowed(batch)
        return self.logits(self.embeddings(batch), batch, training=training)

    def narrowed(self, batch: Tensors) -> Tensors:
        """Return the batch without what the model will not look at, by which no logit changes.

        What is left out is neither looked up nor differentiated. By default that is nothing.
        """
        return batch

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,) from looked-up rows.

        Args:
            embedded: Rows by batch key, float32 (batch, width) or (batch, items, width).
            batch: The batch itself, for numbers, lengths and item weights.
            training: Whether dropout and batch statistics are on.
        """
        raise NotImplementedError

    def prepare(self, rows: tf.Tensor, ids: tf.Tensor) -> Any:
        """Return what training computes once per distinct row of a batch, before `take`.

        Args:
            rows: Weights of the distinct rows, (rows, width).
            ids: Which of the stacked rows of `embeddings` they are, int32 (rows,).
        """
        del ids
        return rows

    def take(self, prepared: Any, places: Tensors) -> Any:
        """Return what `logits` takes as `embedded` in training; never compiled.

        Args:
            prepared: What `prepare` returned.
            places: Which of the distinct rows each id of the batch has, int32 by batch key.
        """
        taken = take_columns(prepared, *places.values()) if places else []
        return dict(zip(places, taken, strict=True))

    def terms(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return parts whose sum over everything but the batch is the logit, in inference.

        Keys: "bias" (batch,); "linear" (batch, names), by `linear_names`; "pairs" (batch, fields,
        fields), 0 unless i < j, by `field_names`; whatever else there is, (batch,). A model that
        is no sum has one part, "network".
        """
        return {"network": self(batch, training=False)}

    @property
    def linear_names(self) -> tuple[str, ...]:
        """Names of the linear terms."""
        return self.field_names

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the fields that form pairs."""
        return ()

    @property
    def vector_names(self) -> tuple[str, ...]:
        """Names of the vectors of one length that v of an id consists of; empty if it is one."""
        return ()

    def pair_weights(self, batch: Tensors) -> tf.Tensor | None:
        """Return what each pair's product is multiplied by, float (batch, fields, fields).

        0 unless i < j; None for a model whose pairs have no such number, see `pair_weight_name`.
        """
        return None

    def history_weights(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return what each event weighs, by history, float (batch, lines, items); 0 at padding.

        Lines are heads, hops or what else the model has several weights of an event for;
        `weights_meaning` says so. Empty for a model without histories.
        """
        return {}

    @property
    def weights_meaning(self) -> WeightsMeaning | None:
        """What `history_weights` are; None for a model without histories."""
        return None

    def event_weights(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the mean over the lines of `history_weights`, float (batch, items)."""
        return {name: tf.reduce_mean(w, axis=1) for name, w in self.history_weights(batch).items()}

    def build(self, *_: object) -> None:
        """Make nothing: layers make their weights in the first call.

        Without this method Keras would call the model twice, first on symbols.
        """

    def build_from(self, batch: Tensors) -> None:
        """Create all weights by one call on a batch; Keras builds layers on first use."""
        self(batch, training=False)


def stack_numeric(schema: FeatureSchema, batch: Tensors) -> tf.Tensor:
    """Return the numeric features side by side, float32 (batch, numeric features)."""
    return tf.stack([batch[feature.name] for feature in schema.numeric], axis=1)
