# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import ClassVar

import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema, History
from models.ctr_model import Tensors
from models.histories import EmbeddingMLPConfig, history_mask, problems_of_targets
from models.history_weights import ANY, ONE, WeightsMeaning
from models.layers.memory_episodes import DynamicMemory, GateNormalisation
from models.limits import Repeats, Width
from models.memory import MemoryNetwork, fields_of


class DMNConfig(EmbeddingMLPConfig):
    """Options of `DMN`."""

    initial_stddev: float = Field(
        0.1,
        gt=0,
        description="Standard deviation of the embeddings' coordinates at the start: what small "
        "ones say would fade in four recurrent units one behind the other.",
    )
    memory_units: Width = Field(32, description="Width of facts, question and memory.")
    num_episodes: Repeats = Field(3, description="How many times the history is gone through.")
    gate_units: Width = Field(32, description="Width of the gate's hidden layer.")
    gate_normalisation: GateNormalisation = Field(
        "sigmoid",
        description="Whether each event's gate opens by itself, or all of them share by soft-max.",
    )


class DMN(MemoryNetwork):
    """Dynamic memory network: goes through the history in episodes, led by what it remembers.

    ŷ = MLP([categorical embeddings; pooled lists; answers; numbers])

    with the answers of a `DynamicMemory` for each history: an event's channels side by side are an
    input, the candidate's features that the channels repeat, side by side, the question.

    Args, call arguments and returns: see `EmbeddingMLP`. Event weights are the gates.

    References:
        Kumar et al., Ask Me Anything: Dynamic Memory Networks for Natural Language Processing,
        ICML 2016, §2, Eq. 1 to 8.
    Differs from the paper: see `DynamicMemory`; the answer enters an MLP beside the other
        features, in place of a soft-max over words. Gates learn from clicks alone: a log has no
        supporting facts to supervise them with (§2.5).
    """

    symbols: ClassVar[Mapping[str, str]] = {
        "U": "memory_units",
        "G": "gate_units",
        "E": "numbers of an event: k per channel; all histories",
        "Q": "numbers of a question: k per channel with a target; all histories",
        "H": "histories",
        "I": "inputs of the MLP: k for each categorical and list, U per history, 1 per number",
    }

    def __init__(
        self, schema: FeatureSchema, config: DMNConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.gate_normalisation = config.gate_normalisation
        self.memories = {
            history.name: DynamicMemory(
                config.memory_units,
                config.num_episodes,
                config.gate_units,
                config.gate_normalisation,
            )
            for history in self.schema.histories
        }

    @staticmethod
    def parameter_formula(config: DMNConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        # what meets inputs and questions; the rest of the GRUs, the bilinear form, the gate
        return "R k + 3 U E + 2 U Q + H (22 U U + 14 U + 7 U G + 4 G + 1) + M(I)"

    @staticmethod
    def problems(schema: FeatureSchema, config: EmbeddingMLPConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_targets("dmn", schema)

    @property
    def weights_meaning(self) -> WeightsMeaning | None:
        """Say what the gates are; see `CTRModel.weights_meaning`."""
        soft = self.gate_normalisation == "softmax"
        added = (
            "they are normalised by soft-max and add up to 1 in each episode" if soft else
            "each is between 0 and 1 by itself (sigmoid), and they do not add up to 1"
        )  # fmt: skip
        return WeightsMeaning(
            "Gates: how far each event moves the state of an episode, which goes through the "
            f"history from old to new; {added}. What is gated is the state of a recurrent unit "
            "that has read all events up to that one, and what one gate lets in, later ones may "
            "overwrite.",
            line="episode",
            total=ONE if soft else ANY,
        )

    def recall(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the answer (batch, units) and the gates (batch, episodes, items)."""
        keys, asked = fields_of(history)
        return self.memories[history.name](
            tf.concat([embedded[key] for _, key in asked], axis=-1),
            tf.concat([embedded[key] for key in keys], axis=-1),
            history_mask(history, batch),
        )
