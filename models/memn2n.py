# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import ClassVar

import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema, History
from models.ctr_model import Tensors
from models.histories import EmbeddingMLPConfig, history_mask, problems_of_targets
from models.history_weights import WeightsMeaning
from models.layers.memory_hops import EndToEndMemory, Tying, number_of_sets, position_encoding
from models.limits import Repeats, Width
from models.memory import MemoryNetwork, fields_of


class MemN2NConfig(EmbeddingMLPConfig):
    """Options of `MemN2N`."""

    embedding_dim: Width = Field(16, description="Length of an embedding in each set.")
    num_hops: Repeats = Field(3, description="How many times the memory is read.")
    tying: Tying = Field(
        "adjacent",
        description="Which embeddings the hops share: adjacent, where what a hop reads is what the "
        "next one compares, num_hops + 1 sets; or layer_wise, 3 sets for all hops.",
    )
    position_encoding: bool = Field(
        True, description="Whether an event's fields differ by their place, or are a plain sum."
    )
    temporal_encoding: bool = Field(
        True, description="Whether events differ by how many came after them."
    )
    empty_memory_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Chance that in training an event looks one rank older to all before it.",
    )


class MemN2N(MemoryNetwork):
    """End-to-end memory network: the candidate asks the history, several hops answer.

    ŷ = MLP([categorical embeddings; pooled lists; u^{K+1} - u^1; numbers])
    u^1 = Σ_j l_j ∘ B x_j over the candidate's fields x_j that the history repeats
    A_i = Σ_j l_j ∘ A x_ij, C_i likewise, over the fields x_ij of event i

    and the hops of `EndToEndMemory`. A row of the tables holds the embeddings of an id in all sets
    side by side: A^1 = B, then C^1 = A^2 … C^K; or A, C and B with layer-wise tying. The first of
    them enters the MLP. Every history has its own T and H.

    Args, call arguments and returns: see `EmbeddingMLP`.

    References:
        Sukhbaatar et al., End-To-End Memory Networks, NIPS 2015, §2, Eq. 1, 2 and 4; §4.1 for l,
        T and empty memories.
    Differs from the paper: words are fields of an event, the question's at the place which the
        field has in an event. An MLP with one output stands in place of soft-max(W (o + u)), Eq. 3,
        and gets u^{K+1} less the candidate, which enters it beside the other features. No linear
        start: `EndToEndMemory` offers it. No empty memories by default (the paper: 10 %).
        Embeddings start at N(0, 0.01²), as those of all models here, not at N(0, 0.1²): the
        products of few fields are so small that hops start as plain means, which serves clicks
        best. Where an answer takes several hops they stay so without the paper's linear start; an
        `initial_stddev` of k^(-1/4), by which the product of two embeddings has variance 1, tells
        events apart from the first step on.
    """

    symbols: ClassVar[Mapping[str, str]] = {
        "S": "embedding sets in a row: num_hops + 1, or 3 with layer_wise tying",
        "T": "weights of time: k for each of max_items in each set that memories have (num_hops "
        "+ 1, or 2), of all histories",
        "H": "histories",
        "I": "inputs of the MLP: k for each categorical, list and history, 1 per number",
    }

    def __init__(
        self, schema: FeatureSchema, config: MemN2NConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.memory_sets = number_of_sets(config.tying, config.num_hops)
        # adjacent: B = A^1, the first set; layer-wise: the set behind those of the memories
        self.question_set = 0 if config.tying == "adjacent" else self.memory_sets
        self.use_positions = config.position_encoding
        self.memories = {
            history.name: EndToEndMemory(
                config.num_hops,
                history.max_items,
                config.tying,
                config.temporal_encoding,
                config.empty_memory_rate,
            )
            for history in self.schema.histories
        }

    @staticmethod
    def row_width(config: MemN2NConfig) -> int:
        """Return how many numbers a row of the tables holds: an embedding of each set."""
        sets = number_of_sets(config.tying, config.num_hops)
        return config.embedding_dim * (sets + (config.tying == "layer_wise"))

    @staticmethod
    def parameter_formula(config: MemN2NConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        time = " + T" if config.temporal_encoding else ""
        matrix = " + H k k" if config.tying == "layer_wise" else ""
        return f"R S k{time}{matrix} + M(I)"

    @staticmethod
    def problems(schema: FeatureSchema, config: EmbeddingMLPConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_targets("memn2n", schema)

    @property
    def weights_meaning(self) -> WeightsMeaning | None:
        """Say what p is; see `CTRModel.weights_meaning`."""
        return WeightsMeaning(
            "How well each event answers the question of a hop, normalised by soft-max: each hop's "
            "weights add up to 1. The first question is the candidate, later ones hold what was "
            "read before. What is read of an event is another vector than the one compared, and "
            "the readings of all hops enter the score.",
            line="hop",
        )

    def recall(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return u^{K+1} - u^1 (batch, dim) and every hop's weights (batch, hops, items)."""
        keys, asked = fields_of(history)
        places = self._places(len(keys), embedded[keys[0]].dtype)
        events = tf.add_n([self._sets(embedded[key]) * places[j] for j, key in enumerate(keys)])
        question = tf.add_n(
            [self._sets(embedded[key])[:, self.question_set] * places[j] for j, key in asked]
        )
        answer, weights = self.memories[history.name](
            question,
            events[:, :, : self.memory_sets],
            history_mask(history, batch),
            training=training,
        )
        return answer - question, weights

    def _places(self, count: int, dtype: tf.DType) -> tf.Tensor:
        if not self.use_positions:
            return tf.ones([count, self.dim], dtype)
        return tf.constant(position_encoding(count, self.dim), dtype)

    def _sets(self, rows: tf.Tensor) -> tf.Tensor:
        """Return rows (…, sets * dim) as (…, sets, dim)."""
        shape = [self.embeddings.width // self.dim, self.dim]
        return tf.reshape(rows, tf.concat([tf.shape(rows)[:-1], shape], 0))
