# SPDX-License-Identifier: Apache-2.0
import pytest

from models.ctr_model import CTRModel, ModelConfig
from models.registry import MODELS, entry


@pytest.mark.parametrize("kind", MODELS)
def test_every_entry_is_complete(kind):
    found = entry(kind)
    assert issubclass(found.config, ModelConfig)
    assert issubclass(found.model, CTRModel)
    assert found.model.__name__.lower() == kind.replace("_", "")
    assert found.summary
    assert found.paper


@pytest.mark.parametrize(("wrong", "near"), [("DIN", "din"), ("bse", "base"), ("deepmf", "deepfm")])
def test_unknown_kind_names_the_nearest(wrong, near):
    with pytest.raises(ValueError, match=f"kind '{wrong}'; did you mean '{near}'"):
        entry(wrong)


def test_unknown_kind_far_from_all_lists_them():
    with pytest.raises(
        ValueError, match=r"no model of kind 'lightgbm'; kinds: lr, fm, .*, base, din"
    ):
        entry("lightgbm")
