# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from models import fmfm as module
from models.fm import FM, FMConfig
from models.fmfm import FmFM, FmFMConfig
from tests.models.against_reference import assert_equals_reference, parts
from tests.models.examples import WITHOUT_HISTORIES, make, random_batch, randomise
from tests.reference.fmfm import fmfm_pairs


@pytest.mark.parametrize("columns", [6, 128])  # several products, and a single one
def test_fmfm_equals_the_reference(columns, float64, monkeypatch):
    monkeypatch.setattr(module, "_COLUMNS", columns)
    model = make("fmfm", embedding_dim=3)
    randomise(model)
    batch = random_batch(4)

    def reference(index):
        row = parts(model, batch, index)
        pairs = [(i, j) for j in range(7) for i in range(j)]
        matrices = np.split(model.matrices.numpy(), len(pairs))
        return row.linear + fmfm_pairs(row.vectors, dict(zip(pairs, matrices, strict=True)))

    assert_equals_reference(model, batch, reference)


def test_with_identities_fmfm_is_fm():
    fmfm = FmFM(WITHOUT_HISTORIES, FmFMConfig(embedding_dim=3))
    fm = FM(WITHOUT_HISTORIES, FMConfig(embedding_dim=3))
    batch = random_batch(6)
    for model in (fmfm, fm):
        model.build_from(batch)
    randomise(fm)
    fmfm.embeddings.packed.assign(fm.embeddings.packed)
    fmfm.fields.rows.numeric_rows.assign(fm.fields.rows.numeric_rows)
    fmfm.fields.bias.assign(fm.fields.bias)
    np.testing.assert_allclose(fmfm(batch), fm(batch), rtol=1e-5, atol=1e-5)
