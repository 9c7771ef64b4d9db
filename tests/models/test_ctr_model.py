# SPDX-License-Identifier: Apache-2.0
from models.registry import MODELS, build
from tests.models.examples import SCHEMA, random_batch


def test_building_a_model_calls_it_once(monkeypatch):
    model = build("din", SCHEMA, MODELS["din"].config())
    calls = []
    logits = model.logits

    def counted(*arguments, **options):
        calls.append(arguments)
        return logits(*arguments, **options)

    monkeypatch.setattr(model, "logits", counted)
    model.build_from(random_batch(2))
    assert len(calls) == 1
    assert model.built
