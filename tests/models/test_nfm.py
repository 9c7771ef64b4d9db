# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from models.fm import FM, FMConfig
from models.nfm import NFM, NFMConfig
from tests.models.against_reference import assert_equals_reference, parts
from tests.models.examples import WITHOUT_HISTORIES, make, random_batch, randomise, reference_layers
from tests.reference.nfm import nfm_logit


@pytest.mark.parametrize("hidden_units", [(), (5,), (4, 3)])
def test_nfm_equals_the_reference(hidden_units, float64):
    model = make("nfm", embedding_dim=3, hidden_units=hidden_units)
    randomise(model)
    batch = random_batch(5)

    def reference(index):
        row = parts(model, batch, index)
        return nfm_logit(row.linear, row.vectors, reference_layers(model.mlp))

    assert_equals_reference(model, batch, reference)


def test_without_hidden_layers_and_with_ones_as_weights_nfm_is_fm():
    nfm = NFM(WITHOUT_HISTORIES, NFMConfig(embedding_dim=3, hidden_units=()))
    fm = FM(WITHOUT_HISTORIES, FMConfig(embedding_dim=3))
    batch = random_batch(6)
    for model in (nfm, fm):
        model.build_from(batch)
    randomise(fm)
    nfm.embeddings.packed.assign(fm.embeddings.packed)
    nfm.fields.rows.numeric_rows.assign(fm.fields.rows.numeric_rows)
    nfm.fields.bias.assign(fm.fields.bias)
    nfm.mlp.output_layer.kernel.assign(np.ones((3, 1)))
    np.testing.assert_allclose(nfm(batch), fm(batch), rtol=1e-5, atol=1e-5)


def test_batch_norm_uses_the_batch_in_training_and_averages_after():
    model = make("nfm", batch_norm=True)
    randomise(model)
    batch = random_batch(8)
    first = model.logits(model.embeddings(batch), batch, training=True)
    np.testing.assert_array_equal(model(batch), model(batch))
    assert not np.allclose(first, model(batch))


def test_pooled_coordinates_are_dropped_in_training_only():
    model = make("nfm", pooling_dropout_rate=0.5)
    randomise(model)
    batch = random_batch(8)
    embedded = model.embeddings(batch)
    first, second = (model.logits(embedded, batch, training=True) for _ in range(2))
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(model(batch), model(batch))
