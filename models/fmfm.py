# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import tensorflow as tf

from features.schema import FeatureSchema
from models.ctr_model import Tensors
from models.fields import FieldConfig, LinearFieldModel, problems_of_vectors

_COLUMNS = 128
"""Columns of the block matrix in one product: wide enough to be fast, and to leave out zeros."""


class FmFMConfig(FieldConfig):
    """Options of `FmFM`."""


class FmFM(LinearFieldModel):
    """Field-matrixed factorisation machine: each pair of fields has a matrix between its vectors.

    ŷ = w_0 + Σ_i w_i x_i + Σ_{i<j} <v_i M_{F(i)F(j)}, v_j> x_i x_j

    over fields i with x_i as in `FM`. With identities for matrices it is FM.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.

    References:
        Sun et al., FM²: Field-matrixed Factorization Machines for Recommender Systems, WWW 2021,
        §3.1.
    Differs from the paper: all vectors have one length (the paper lets it differ by field);
        matrices start as identities. Items of one list form no pairs among themselves.
    """

    forms_pairs = True

    def __init__(
        self, schema: FeatureSchema, config: FmFMConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.num_fields = len(self.fields.rows.names)
        dim, pairs = config.embedding_dim, self.num_fields * (self.num_fields - 1) // 2
        # M_ij, i < j, ordered by j and then i, one below the other
        self.matrices = self.add_weight(
            name="matrices",
            shape=(pairs * dim, dim),
            initializer=lambda shape, dtype: tf.tile(tf.eye(dim, dtype=dtype), (pairs, 1)),
        )

    @staticmethod
    def parameter_formula(config: FmFMConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return f"{LinearFieldModel.parameter_formula(config)} + F (F - 1) k k / 2"

    @staticmethod
    def problems(schema: FeatureSchema, config: FmFMConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_vectors("fmfm", schema, config)

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        linear, vectors, _ = self.fields(embedded, batch)
        fields = tf.concat(vectors, axis=1)
        matrix = self._block_matrix()
        terms = [linear]
        for start in range(0, matrix.shape[0], _COLUMNS):
            stop = min(start + _COLUMNS, matrix.shape[0])
            # Σ_{i<j} v_i M_ij of some fields j; blocks below the diagonal are left out
            partners = fields[:, :stop] @ matrix[:stop, start:stop]
            terms.append(tf.reduce_sum(partners * fields[:, start:stop], axis=1))
        return tf.add_n(terms)

    def interactions(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the parts beside the linear ones; see `CTRModel.terms`."""
        _, vectors, _ = self.fields(self.embeddings(batch), batch)
        fields = tf.stack(vectors, axis=1)  # (B, F, D)
        count, dim = fields.shape[1:]
        blocks = tf.reshape(self._block_matrix(), (count, dim, count, dim))
        return {"pairs": tf.einsum("bid,idje,bje->bij", fields, blocks, fields)}

    def _block_matrix(self) -> tf.Tensor:
        """Return the matrix (F dim, F dim) with M_ij as its block i, j; 0 unless i < j."""
        dim, count = self.matrices.shape[1], self.num_fields
        columns = tf.split(tf.convert_to_tensor(self.matrices), [j * dim for j in range(count)])
        heights = [(count - j) * dim for j in range(count)]
        padded = [tf.pad(c, [[0, h], [0, 0]]) for c, h in zip(columns, heights, strict=True)]
        return tf.concat(padded, axis=1)
