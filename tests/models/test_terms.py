# SPDX-License-Identifier: Apache-2.0
"""The parts of a score that explanations show are those of the score."""

import numpy as np
import pytest

from models.ctr_model import CTRModel
from models.histories import EmbeddingMLP
from models.registry import MODELS, entry
from tests.models.examples import STRUCTURES, make, random_batch, randomise

WHOLE = (CTRModel.terms, EmbeddingMLP.terms)
"""Of models that are no sum: one part, which is the logit whatever their options are."""


@pytest.mark.parametrize(
    ("kind", "options"),
    [(k, options) for k, options in STRUCTURES if not options or entry(k).model.terms not in WHOLE],
)
def test_terms_add_up_to_the_logit(kind, options, float64):
    model = make(kind, **options)
    randomise(model)
    batch = random_batch(6)
    terms = {name: part.numpy() for name, part in model.terms(batch).items()}
    total = sum(part.reshape(6, -1).sum(axis=1) for part in terms.values())
    np.testing.assert_allclose(total, model(batch), rtol=1e-10, atol=1e-12)
    if "linear" in terms:
        assert terms["linear"].shape == (6, len(model.linear_names))
    if "pairs" in terms:
        fields = len(model.field_names)
        assert terms["pairs"].shape == (6, fields, fields)
        assert not np.tril(terms["pairs"]).any()


@pytest.mark.parametrize("kind", ["fm", "ffm", "deepfm", "afm", "fwfm", "fmfm"])
def test_a_pair_depends_on_its_two_fields_alone(kind, float64):
    model = make(kind)
    randomise(model)
    batch, other = random_batch(6, seed=3), random_batch(6, seed=4)
    mixed = other | {name: batch[name] for name in ("user", "price")}
    place = model.field_names.index("user"), model.field_names.index("price")
    ours, theirs = (model.terms(b)["pairs"].numpy()[:, *place] for b in (batch, mixed))
    if kind == "afm":  # but for what the other pairs leave of the attention
        ours, theirs = (
            pairs / model.pair_weights(b).numpy()[:, *place]
            for pairs, b in ((ours, batch), (theirs, mixed))
        )
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)


@pytest.mark.parametrize("kind", MODELS)
def test_weights_of_pairs_have_a_name_and_lie_where_they_belong(kind):
    found = entry(kind).model
    assert (found.pair_weights is CTRModel.pair_weights) == (found.pair_weight_name is None)
    if found.pair_weight_name is None:
        return
    model = make(kind)
    randomise(model)
    weights = model.pair_weights(random_batch(6))
    assert weights.shape == (6, len(model.field_names), len(model.field_names))
    assert not np.tril(weights).any()
