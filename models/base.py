# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import Literal

import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema, History
from models.ctr_model import Tensors
from models.histories import EmbeddingMLP, EmbeddingMLPConfig, history_mask
from models.history_weights import ANY, WeightsMeaning
from models.layers.masking import masked_mean, masked_sum


class BaseConfig(EmbeddingMLPConfig):
    """Options of `Base`."""

    history_pooling: Literal["sum", "mean"] = Field(
        "sum", description="Whether a history enters as the sum or the mean of its events."
    )


class Base(EmbeddingMLP):
    """Base model of the DIN paper: every history is pooled without regard to the candidate.

    ŷ = MLP([categorical embeddings; pooled lists; Σ_t e_t or its mean; numbers])

    Args, call arguments and returns: see `EmbeddingMLP`.

    References:
        Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018, §4.2,
        Eq. 1.
    Differs from the paper: numeric features enter the MLP as they are; Dice is on by default.
    """

    def __init__(
        self, schema: FeatureSchema, config: BaseConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.pool = masked_mean if config.history_pooling == "mean" else masked_sum

    def history_vector(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tf.Tensor:
        """Return the pooled events, channels side by side."""
        events = tf.concat([embedded[channel.name] for channel in history.channels], axis=-1)
        return self.pool(events, history_mask(history, batch))

    def history_weights(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return 1 for every event, or its share of a mean; see `CTRModel.history_weights`."""
        masks = {
            h.name: tf.cast(history_mask(h, batch), self.dtype)[:, tf.newaxis]
            for h in self.schema.histories
        }
        if self.pool is masked_sum:
            return masks
        return {
            name: tf.math.divide_no_nan(mask, tf.reduce_sum(mask, axis=2, keepdims=True))
            for name, mask in masks.items()
        }

    @property
    def weights_meaning(self) -> WeightsMeaning | None:
        """Say that events weigh alike; see `CTRModel.weights_meaning`."""
        if self.pool is masked_sum:
            caption = "The model adds the events up: each weighs 1, whatever the candidate is."
            return WeightsMeaning(caption, total=ANY)
        return WeightsMeaning(
            "The model takes the mean of the events: all weigh the same, whatever the candidate "
            "is, and add up to 1."
        )
