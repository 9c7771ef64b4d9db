# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import ClassVar

import tensorflow as tf
from pydantic import Field

from features.schema import LABEL, WEIGHT, FeatureSchema, History
from models.ctr_model import Tensors
from models.histories import EmbeddingMLPConfig, history_mask, problems_of_targets
from models.history_weights import ONE, UP_TO_ONE, WeightsMeaning
from models.layers.memory_keys import put_back
from models.layers.memory_slots import Gating, MarginRanking, SupportingMemories, store
from models.layers.positions import recency_ranks
from models.limits import Repeats, Width
from models.memory import MemoryNetwork, fields_of

ASKED, SCORED, CHOSEN = range(3)
"""Places of the three embeddings in a row of the tables."""


class MemNNConfig(EmbeddingMLPConfig):
    """Options of `MemNN`."""

    embedding_dim: Width = Field(16, description="Length of each of an id's three embeddings.")
    num_supports: Repeats = Field(2, description="How many events are chosen, one by one.")
    num_slots: Width | None = Field(
        None,
        description="Slots of a history's memory: an event replaces what its slot held. When left "
        "out every event has a slot of its own.",
    )
    temporal_encoding: bool = Field(
        True, description="Whether events differ by how many came after them."
    )
    gating: Gating = Field(
        "probability",
        description="What a chosen event is multiplied by: its soft-max weight, through which "
        "choices learn from clicks; or none, the paper's, where they do not.",
    )
    ranking_loss: float = Field(
        0.0, ge=0, description="λ of the margin ranking loss beside log loss; 0 for none."
    )
    ranking_margin: float = Field(0.1, gt=0, description="γ of the margin ranking loss.")
    ranking_negatives: Repeats = Field(
        4, description="How many rows of the batch the ranking loss compares each with."
    )


class MemNN(MemoryNetwork):
    """Memory network: events are stored in slots, and single ones chosen to support the answer.

    I: x = Σ e_x over the candidate's fields; y_i = Σ e_y and z_i = Σ e_z over those of event i
    G: m_{H(i)} = i in order, H(i) the id of the first channel with a target, mod `num_slots`
    O: `SupportingMemories` choose o_1, o_2, … among the slots
    R: ŷ = MLP([categorical embeddings; pooled lists; q of O - x; numbers])

    A row of the tables holds e_x, e_y and e_z of an id side by side; e_x enters the MLP. Every
    history has its own T.

    Args, call arguments and returns: see `EmbeddingMLP`. Event weights are p of the chosen, 0 for
    all others.

    References:
        Weston et al., Memory Networks, ICLR 2015, §2 for I, G, O and R; §3.1, Eq. 2 to 8, with the
        three representations of a word.
    Differs from the paper: a bag of words is a bag of fields; R is an MLP with one output, learnt
        by log loss, with the margin ranking loss (Eq. 8) as an option. Clicks name no supporting
        facts, so that choices learn through `gating`, see `SupportingMemories`; Eq. 6 and 7 are
        there for who has facts.
    """

    symbols: ClassVar[Mapping[str, str]] = {
        "T": "weights of time: k for each of max_items, all histories",
        "I": "inputs of the MLP: k for each categorical, list and history, 1 per number",
    }

    def __init__(
        self, schema: FeatureSchema, config: MemNNConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.num_slots = config.num_slots
        self.gating = config.gating
        self.memories = {
            history.name: SupportingMemories(
                config.num_supports, history.max_items, config.temporal_encoding, config.gating
            )
            for history in self.schema.histories
        }
        self.ranking = None
        if config.ranking_loss:
            self.ranking = MarginRanking(
                config.ranking_loss, config.ranking_margin, config.ranking_negatives
            )

    @staticmethod
    def row_width(config: MemNNConfig) -> int:
        """Return how many numbers a row of the tables holds: three embeddings."""
        return 3 * config.embedding_dim

    @staticmethod
    def parameter_formula(config: MemNNConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return "3 R k + T + M(I)" if config.temporal_encoding else "3 R k + M(I)"

    @staticmethod
    def problems(schema: FeatureSchema, config: EmbeddingMLPConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_targets("memnn", schema)

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,), and the ranking loss in training; see `CTRModel.logits`."""
        logits = super().logits(embedded, batch, training)
        if training and self.ranking and LABEL in batch:
            return self.ranking(logits, batch[LABEL], batch[WEIGHT])
        return logits

    @property
    def weights_meaning(self) -> WeightsMeaning | None:
        """Say what was chosen, and from what; see `CTRModel.weights_meaning`."""
        number = (
            "its number is its soft-max share among all that could be chosen, by which it is "
            "multiplied" if self.gating == "probability" else "its number is 1"
        )  # fmt: skip
        slots = "" if self.num_slots is None else (
            f" Events are stored in {self.num_slots} slots, where a newer one replaces what its "
            "slot held: only what is still there can be chosen."
        )  # fmt: skip
        return WeightsMeaning(
            "Chosen memories: each choice takes the one event that fits best (arg-max), all "
            f"others weigh 0 in it; {number}. The first question is the candidate, the next "
            f"choice also knows what was chosen. An event may be chosen again.{slots}",
            line="choice",
            total=UP_TO_ONE if self.gating == "probability" else ONE,
        )

    def recall(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return q - x (batch, dim) and p of what was chosen (batch, supports, items)."""
        keys, asked = fields_of(history)
        question = tf.add_n([self._part(embedded[key], ASKED) for _, key in asked])
        events, mask = [embedded[key] for key in keys], history_mask(history, batch)
        items, ranks, places = tf.shape(mask)[1], None, None
        if self.num_slots is not None:
            hashed = next(channel.name for channel in history.channels if channel.target)
            held = store(batch[hashed], mask, self.num_slots)  # (B, slots)
            places = tf.maximum(held, 0)
            ranks = tf.gather(recency_ranks(mask), places, batch_dims=1)
            events, mask = [tf.gather(rows, places, batch_dims=1) for rows in events], held >= 0
        scored, chosen = (
            tf.add_n([self._part(rows, part) for rows in events]) for part in (SCORED, CHOSEN)
        )
        answer, _, weights = self.memories[history.name](question, scored, chosen, mask, ranks)
        if places is not None:
            weights = put_back(weights, places, items)
        return answer - question, weights

    def _part(self, rows: tf.Tensor, part: int) -> tf.Tensor:
        return rows[..., part * self.dim : (part + 1) * self.dim]
