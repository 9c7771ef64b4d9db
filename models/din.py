# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import ClassVar

import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema, History
from models.ctr_model import Tensors
from models.histories import (
    EmbeddingMLP,
    EmbeddingMLPConfig,
    compared,
    history_mask,
    places_key,
    problems_of_targets,
)
from models.history_weights import ANY, ONE, WeightsMeaning
from models.layers.activations import Activation
from models.layers.attention import ActivationUnit, AttentionPooling, Normalisation
from models.layers.mlp import Units

_NORMALISED: Mapping[Normalisation, str] = {
    "none": "They are not normalised: a weight may be negative or above 1, and their sum says how "
    "strong the interest is, so that it differs from row to row.",
    "softmax": "They are normalised by soft-max over the history and add up to 1.",
    "sigmoid": "Each is between 0 and 1 by itself (sigmoid); they do not add up to 1.",
}


class DINConfig(EmbeddingMLPConfig):
    """Options of `DIN`."""

    attention_units: Units = Field(
        (80, 40), min_length=1, description="Width of each hidden layer of the activation unit."
    )
    attention_activation: Activation = Field(
        "dice", description="Of the activation unit's hidden layers."
    )
    normalisation: Normalisation = Field(
        "none", description="What makes weights of the activation unit's scores."
    )


class DIN(EmbeddingMLP):
    """Deep Interest Network: past events count by how well they fit the candidate.

    ŷ = MLP([categorical embeddings; pooled lists; v_U(A); numbers]),
    v_U(A) = Σ_j a(e_j, v_A) e_j

    v_A puts side by side the candidate's embeddings that the history's channels repeat, e_j all
    channels of event j: those that repeat something first and in the order of v_A, then the rest,
    which the activation unit sees but has nothing to compare with. Every history has an activation
    unit of its own.

    Args, call arguments and returns: see `EmbeddingMLP`.

    References:
        Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018, §4.3,
        Eq. 3; weights are not normalised, so that their sum says how strong an interest is.
    Differs from the paper: see `ActivationUnit`; mini-batch aware regularisation (§5.1) is the
        training's: `train.table_l2` with `train.table_l2_by_count`.
    """

    takes_places = True
    symbols: ClassVar[Mapping[str, str]] = {
        **EmbeddingMLP.symbols,
        "U": "weights of the activation units, an MLP over attention_units for each history, "
        "from 3 q + e inputs: q numbers of the candidate, e of an event",
    }

    def __init__(
        self, schema: FeatureSchema, config: DINConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.normalisation = config.normalisation
        self.pools = {
            history.name: AttentionPooling(
                ActivationUnit(config.attention_units, config.attention_activation),
                config.normalisation,
            )
            for history in self.schema.histories
        }

    @staticmethod
    def parameter_formula(config: DINConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return f"{EmbeddingMLP.parameter_formula(config)} + U"

    @staticmethod
    def problems(schema: FeatureSchema, config: EmbeddingMLPConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_targets("din", schema)

    def history_vector(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tf.Tensor:
        """Return v_U(A) of the history."""
        query, events = compared(history, embedded)
        mask = history_mask(history, batch)
        places = batch.get(places_key(history.name))
        return self.pools[history.name](query, events, mask, places=places, training=training)

    def history_weights(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return a of every event; see `CTRModel.history_weights`."""
        embedded = self.embeddings(batch)
        weights = {}
        for history in self.schema.histories:
            query, events = compared(history, embedded)
            _, found = self.pools[history.name](
                query, events, history_mask(history, batch), return_weights=True
            )
            weights[history.name] = found[:, tf.newaxis]
        return weights

    @property
    def weights_meaning(self) -> WeightsMeaning | None:
        """Say what a is; see `CTRModel.weights_meaning`."""
        return WeightsMeaning(
            "How well each event fits the candidate by the activation unit; the events' vectors "
            f"are multiplied by these weights and added up. {_NORMALISED[self.normalisation]}",
            total=ONE if self.normalisation == "softmax" else ANY,
        )
