# SPDX-License-Identifier: Apache-2.0
"""Rows of a batch as the references of models of histories take them."""

import numpy as np

from tests.reference.pooling import pool


class HistoryRow:
    """One row of a batch as vectors looked up by hand."""

    def __init__(self, model, batch, row):
        self.model, self.batch, self.row = model, batch, row
        self.tables = {
            table.name: model.embeddings.table_weights(table).numpy()
            for table in model.embeddings.tables
        }

    def vectors(self, key, table, length=None):
        ids = self.batch[key][self.row].numpy()
        return self.tables[table][ids if length is None else ids[:length]]

    def target(self, channel):
        """What of the candidate a channel repeats."""
        return self.vectors(channel.target, channel.table)

    def length(self, feature):
        return int(self.batch[f"{feature.name}_length"][self.row])

    def events(self, history, channels):
        length = self.length(history)
        return np.concatenate([self.vectors(c.name, c.table, length) for c in channels], axis=1)

    def plain_parts(self):
        """Everything before the histories."""
        parts = [self.vectors(f.name, f.table) for f in self.model.schema.categorical]
        for feature in self.model.schema.lists:
            length = self.length(feature)
            weights = np.ones(length)
            if feature.weighted:
                weights = (
                    self.batch[f"{feature.name}_weight"][self.row, :length].numpy().astype(float)
                )
            parts.append(pool(self.vectors(feature.name, feature.table, length), weights, "mean"))
        return parts

    def numbers(self):
        return np.array([self.batch[f.name][self.row] for f in self.model.schema.numeric])
