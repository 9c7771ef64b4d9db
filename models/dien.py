# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema, History
from models.ctr_model import Tensors
from models.histories import (
    EmbeddingMLP,
    EmbeddingMLPConfig,
    compared,
    history_mask,
    identifying_channel,
    problems_of_targets,
)
from models.history_weights import WeightsMeaning
from models.layers.masking import masked_softmax
from models.layers.next_event import NextEventLoss
from models.layers.recurrent import AGRU, AIGRU, AUGRU, GRU
from models.layers.scorers import GeneralScorer
from models.limits import Several

Evolution = Literal["augru", "agru", "aigru"]
_UNITS: Mapping[Evolution, type[AUGRU | AGRU | AIGRU]] = {
    "augru": AUGRU,
    "agru": AGRU,
    "aigru": AIGRU,
}


_ACTS: Mapping[Evolution, str] = {
    "augru": "multiplies the update gate of the second recurrent unit, AUGRU",
    "agru": "is the update gate of the second recurrent unit, AGRU",
    "aigru": "multiplies the input of the second recurrent unit, AIGRU",
}


class DIENConfig(EmbeddingMLPConfig):
    """Options of `DIEN`."""

    evolution: Evolution = Field(
        "augru", description="The recurrent unit through which attention acts."
    )
    auxiliary_weight: float = Field(
        1.0, ge=0, description="α of the loss of telling the next event from others; 0 for none."
    )
    num_negatives: Several = Field(
        8, description="Events of other rows that a row's next events are told from."
    )


class DIEN(EmbeddingMLP):
    """Deep Interest Evolution Network: interests come out of a history, and evolve to a candidate.

    h_t = GRU(e_t, h_{t-1});    a_t = soft-max over t of h_t W v_A;
    h'_t = AUGRU(h_t, h'_{t-1}, a_t);
    ŷ = MLP([categorical embeddings; pooled lists; h'_T; numbers])

    and, in training, the loss has a part in which h_t tells e_{t+1} from events of other rows; see
    `NextEventLoss`. e_t puts all channels of event t side by side, v_A the candidate's embeddings
    that they repeat; states are as wide as events. An id of the channel with the largest table
    says whether two events are the same. Every history has units of its own; of an empty one h' is
    zero.

    Args, call arguments and returns: see `EmbeddingMLP`.

    References:
        Zhou et al., Deep Interest Evolution Network for Click-Through Rate Prediction, AAAI 2019:
        "Interest Extractor Layer" (GRU, auxiliary loss) and "Interest Evolving Layer" (a_t, AIGRU,
        AGRU, AUGRU).
    Differs from the paper: see `NextEventLoss`; numeric features enter the MLP as they are.
    """

    symbols: ClassVar[Mapping[str, str]] = {
        **EmbeddingMLP.symbols,
        "G": "weights of each history's recurrent units and attention: (2 e + 1) 3 e of the "
        "extractor, the same of the evolution (agru: 2 e for 3 e), and q e; q numbers of the "
        "candidate, e of an event",
    }

    def __init__(
        self, schema: FeatureSchema, config: DIENConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        widths = {h.name: len(h.channels) * config.embedding_dim for h in self.schema.histories}
        self.evolution = config.evolution
        self.extractors = {name: GRU(width) for name, width in widths.items()}
        self.scorers = {name: GeneralScorer() for name in widths}
        self.evolutions = {name: _UNITS[config.evolution](w) for name, w in widths.items()}
        self.next_event = {
            name: NextEventLoss(config.auxiliary_weight, config.num_negatives)
            for name in widths
            if config.auxiliary_weight
        }

    @staticmethod
    def parameter_formula(config: DIENConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return f"{EmbeddingMLP.parameter_formula(config)} + G"

    @staticmethod
    def problems(schema: FeatureSchema, config: EmbeddingMLPConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_targets("dien", schema)

    def history_vector(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tf.Tensor:
        """Return h'_T of the history, and add its part of the loss in training."""
        states, weights, mask = self._attended(history, embedded, batch)
        if training and history.name in self.next_event:
            _, events = compared(history, embedded)
            ids = batch[identifying_channel(self.schema, history)]
            self.next_event[history.name](states, events, ids, mask)
        _, last = self.evolutions[history.name](states, weights, mask)
        return last

    def history_weights(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return a_t of every event; see `CTRModel.history_weights`."""
        embedded = self.embeddings(batch)
        return {
            h.name: self._attended(h, embedded, batch)[1][:, tf.newaxis]
            for h in self.schema.histories
        }

    @property
    def weights_meaning(self) -> WeightsMeaning | None:
        """Say what a_t is; see `CTRModel.weights_meaning`."""
        return WeightsMeaning(
            "Attention of the candidate to the interest at each event, normalised by soft-max: "
            "it adds up to 1 over the history. The interest at an event is the state of a first "
            "recurrent unit, which has read all events up to that one. The weight "
            f"{_ACTS[self.evolution]}: what a large weight lets in, later events may overwrite."
        )

    def _attended(
        self, history: History, embedded: Tensors, batch: Tensors
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return h (batch, items, events' dim), a (batch, items) and the mask."""
        query, events = compared(history, embedded)
        mask = history_mask(history, batch)
        states, _ = self.extractors[history.name](events, mask)
        scores = self.scorers[history.name](query, states, mask=mask)
        return states, masked_softmax(scores, mask), mask
