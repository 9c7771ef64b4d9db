# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple

import tensorflow as tf
from pydantic import Field

from features.schema import PADDING, Channel, FeatureSchema, History, length_key
from models.ctr_model import Tensors
from models.histories import EmbeddingMLPConfig, history_mask, problems_of_targets
from models.history_weights import ONE, UP_TO_ONE, WeightsMeaning
from models.layers.memory_keys import KeyValueMemory, SimHash, newest, put_back, same_key
from models.limits import Repeats, Several, Width
from models.memory import MemoryNetwork

_MATCH = {
    "same_key": "share an id with the candidate",
    "simhash": "have keys in about the candidate's direction",
}


class KVMemNNConfig(EmbeddingMLPConfig):
    """Options of `KVMemNN`."""

    num_hops: Repeats = Field(2, description="How many times the memory is read.")
    key_columns: tuple[str, ...] | None = Field(
        None,
        description="What of an event is compared with the candidate: columns of the history. When "
        "left out: those that the candidate has, too.",
    )
    value_columns: tuple[str, ...] | None = Field(
        None,
        description="What of an event is read: columns of the history. When left out: those that "
        "are no keys, or all of them if all are keys.",
    )
    key_hashing: Literal["none", "same_key", "simhash"] = Field(
        "none",
        description="Which events are looked at: all; those that share an id with the candidate; "
        "or those whose keys point in about its direction.",
    )
    max_memories: Width = Field(
        32, description="How many events key hashing keeps at most, the newest ones."
    )
    hash_bits: Several = Field(16, description="Random hyperplanes of simhash.")
    hash_distance: int = Field(
        4, ge=0, description="In how many of its bits an event's key may differ from the candidate."
    )
    hash_seed: int = Field(0, ge=0, description="Of the hyperplanes.")


class Roles(NamedTuple):
    """What the channels of a history are for."""

    keys: list[Channel]
    values: list[Channel]

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Batch keys of the keys that the candidate has, too, and what of it they repeat."""
        return [(channel.name, channel.target) for channel in self.keys if channel.target]


def roles(history: History, config: KVMemNNConfig) -> Roles:
    """Return which channels are keys and which are values.

    Args:
        history: Columns of another history that a Config names do not matter to it; it takes the
            default where none of its own is named.
        config: The options.
    """

    def named(columns: Sequence[str] | None) -> list[Channel]:
        return [c for c in history.channels if {c.name, _column(history, c)} & set(columns or ())]

    keys = named(config.key_columns) or [c for c in history.channels if c.target]
    values = named(config.value_columns) or [c for c in history.channels if c not in keys]
    return Roles(keys, values or list(history.channels))


def _column(history: History, channel: Channel) -> str:
    return channel.name.removeprefix(f"{history.name}_")


class KVMemNN(MemoryNetwork):
    """Key-value memory network: what is compared of an event differs from what is read.

    ŷ = MLP([categorical embeddings; pooled lists; q_{H+1} - q_1; numbers])
    q_1 = Σ e over the candidate's fields that are keys; k_i = Σ e over the key fields of event i,
    v_i = Σ e over its value fields; e one table for all

    and the hops of `KeyValueMemory`. Key hashing picks the events that take part without scoring
    any: all that comes after it, embeddings and their gradients included, costs as much as the
    number kept, whatever the length of the history. `same_key` compares ids. `simhash` looks keys
    up and costs `hash_bits` products per event. Every history has its own R.

    Args, call arguments and returns: see `EmbeddingMLP`.

    References:
        Miller et al., Key-Value Memory Networks for Directly Reading Documents, EMNLP 2016, §3.1;
        keys and values of different kinds as in §3.2, "KB Triple".
    Differs from the paper: an MLP with one output in place of the soft-max over answers, which gets
        q_{H+1} less the candidate, as that enters it beside the other features; bags are fields of
        an event. The paper's key hashing is `same_key`, with `MISSING` for a stop word; `simhash`
        is ours.
    """

    symbols: ClassVar[Mapping[str, str]] = {
        "J": "num_hops",
        "H": "histories",
        "I": "inputs of the MLP: k for each categorical, list and history, 1 per number",
    }

    def __init__(
        self, schema: FeatureSchema, config: KVMemNNConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.roles = {history.name: roles(history, config) for history in self.schema.histories}
        self.memories = {
            history.name: KeyValueMemory(config.num_hops) for history in self.schema.histories
        }
        self.key_hashing = config.key_hashing
        self.max_memories = config.max_memories
        self.sim_hash = SimHash(
            config.embedding_dim, config.hash_bits, config.hash_distance, config.hash_seed
        )

    @staticmethod
    def parameter_formula(config: KVMemNNConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return "R k + H J k k + M(I)"

    @staticmethod
    def problems(schema: FeatureSchema, config: KVMemNNConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        problems = problems_of_targets("kvmemnn", schema)
        columns = {c.name for h in schema.histories for c in h.channels}
        columns |= {_column(h, c) for h in schema.histories for c in h.channels}
        for option in ("key_columns", "value_columns"):
            problems += [
                f"{option} names `{name}`, which no history has; histories have "
                f"{', '.join(sorted(columns))}"
                for name in getattr(config, option) or ()
                if name not in columns
            ]
        if config.key_hashing == "simhash" and config.hash_distance >= config.hash_bits:
            problems.append(
                f"hash_distance of {config.hash_distance} takes every event, as keys have only "
                f"{config.hash_bits} bits; make it smaller than hash_bits, or key_hashing none"
            )
        return problems + [
            f"history `{history.name}`: none of its keys has a `target:`, so kvmemnn has nothing "
            "of the candidate to compare them with; name another in key_columns"
            for history in schema.histories
            if not roles(history, config).asked and any(c.target for c in history.channels)
        ]

    @property
    def weights_meaning(self) -> WeightsMeaning | None:
        """Say what p is, and of which events; see `CTRModel.weights_meaning`."""
        hashed = self.key_hashing != "none"
        over = "all events, so that each hop's weights add up to 1"
        if hashed:
            over = (
                f"those that key hashing kept, at most the {self.max_memories} newest that "
                f"{_MATCH[self.key_hashing]} ({self.key_hashing}): each hop's weights add up to 1, "
                "or are all 0 if none was kept, and an event of weight 0 was not looked at"
            )
        return WeightsMeaning(
            "Key addressing: how well the key of each event fits the question of a hop, by "
            f"soft-max over {over}. The first question is the candidate, later ones hold what was "
            "read before. The weights multiply the values of the events, which can be other "
            "columns than the keys.",
            line="hop",
            total=UP_TO_ONE if hashed else ONE,
        )

    def recall(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return q_{H+1} - q_1 (batch, dim) and every hop's weights (batch, hops, items)."""
        keys, values = own = self.roles[history.name]
        question = tf.add_n([embedded[target] for _, target in own.asked])
        looked_at, mask, places = embedded, history_mask(history, batch), None
        items = tf.shape(mask)[1]
        if self.key_hashing != "none":
            places, mask = newest(self._matches(history, embedded, batch), self.max_memories)
            looked_at = {  # once each, and in the same order in every process
                c.name: tf.gather(embedded[c.name], places, batch_dims=1)
                for c in dict.fromkeys((*keys, *values))
            }
        answer, weights = self.memories[history.name](
            question,
            tf.add_n([looked_at[c.name] for c in keys]),
            tf.add_n([looked_at[c.name] for c in values]),
            mask,
        )
        if places is not None:
            weights = put_back(weights, places, items)
        return answer - question, weights

    def narrowed(self, batch: Tensors) -> Tensors:
        """Return the batch with the events that key hashing keeps, newest first, and no others."""
        if self.key_hashing == "none":
            return batch
        narrowed = dict(batch)
        for history in self.schema.histories:
            columns = [] if self.key_hashing == "same_key" else self._compared(history)
            matches = self._matches(history, self.embeddings.look_up(batch, columns), batch)
            places, kept = newest(matches, self.max_memories)
            for channel in history.channels:
                ids = tf.gather(batch[channel.name], places, batch_dims=1)
                narrowed[channel.name] = tf.where(kept, ids, PADDING)
            narrowed[length_key(history.name)] = tf.reduce_sum(tf.cast(kept, tf.int32), axis=1)
        return narrowed

    def _compared(self, history: History) -> list[str]:
        """Return the batch keys of all that simhash compares."""
        keys, _ = own = self.roles[history.name]
        return [*(channel.name for channel in keys), *(target for _, target in own.asked)]

    def _matches(self, history: History, embedded: Tensors, batch: Tensors) -> tf.Tensor:
        """Return which events may be looked at, bool (batch, items)."""
        own = self.roles[history.name]
        if self.key_hashing == "same_key":
            found = same_key(
                [batch[key] for key, _ in own.asked], [batch[target] for _, target in own.asked]
            )
        else:
            question = tf.add_n([embedded[target] for _, target in own.asked])
            found = self.sim_hash.matches(question, tf.add_n([embedded[c.name] for c in own.keys]))
        return found & history_mask(history, batch)
