# SPDX-License-Identifier: Apache-2.0
"""What the models that remember a history and look things up in it share."""

import tensorflow as tf

from features.schema import History
from models.ctr_model import Tensors
from models.histories import EmbeddingMLP


class MemoryNetwork(EmbeddingMLP):
    """A history is a memory, the candidate a question, and what the memory answers enters the MLP.

    ŷ = MLP([categorical embeddings; pooled lists; answers; numbers])

    A subclass writes `recall`. The question consists of the candidate's features that the
    history's channels repeat, a memory of all channels of an event. Where a paper adds to the
    question what is read of the memory, and answers from the sum, the answer here is what was read
    alone, the last question less the first: the MLP has the candidate's features already, and a
    sum would tie the size of what is read to theirs.

    Args, call arguments and returns: see `EmbeddingMLP`.
    """

    def recall(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the answer (batch, any width) and the events' weights (batch, hops, items)."""
        raise NotImplementedError

    def history_vector(
        self, history: History, embedded: Tensors, batch: Tensors, training: bool
    ) -> tf.Tensor:
        """Return the answer of the history."""
        return self.recall(history, embedded, batch, training)[0]

    def history_weights(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return what each event weighs in each hop; see `CTRModel.history_weights`."""
        embedded = self.embeddings(batch)
        return {
            history.name: self.recall(history, embedded, batch, training=False)[1]
            for history in self.schema.histories
        }


def fields_of(history: History) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the batch keys of an event's fields, and of a question's with their place in an event.

    Args:
        history: Its channels are the fields of an event, in their order.
    """
    keys = [channel.name for channel in history.channels]
    asked = [(j, channel.target) for j, channel in enumerate(history.channels) if channel.target]
    return keys, asked
