import pytest

from pipeline.config_train import TrainConfig
from pipeline.train_end import End

SMALLER = " or lower train.batch_size (4096 rows: 4 steps an epoch)"


@pytest.mark.parametrize(
    ("end", "said", "warned"),
    [
        (End(12, 12, 12, False), f"raise train.epochs (3){SMALLER}", True),
        (End(12, 9, 12, False), None, False),
        (End(9, 5, 12, True), None, False),
        (End(600, 600, 600, False), "raise train.epochs (3)", False),
    ],
)
def test_training_that_still_gets_better_at_its_end_says_so(end, said, warned):
    config = TrainConfig(epochs=3, batch_size=4096, patience=4)
    text, warning = end.text(config), end.warning(config)
    assert f"step {end.best_step}" in text
    assert ("more training may help" in text) == (said is not None)
    if said:
        assert text.endswith(f": {said}.")
    assert (warning is not None) == warned
    if warning:
        assert warning == f"training is over after 12 steps while it still gets better: {said}"


def test_a_single_step_is_no_steps():
    warning = End(2, 2, 2, False).warning(TrainConfig(epochs=2, batch_size=4096))
    assert warning is not None
    assert warning.endswith("lower train.batch_size (4096 rows: 1 step an epoch)")


def test_training_that_patience_ended_says_so():
    text = End(9, 5, 12, True).text(TrainConfig(patience=4))
    assert text == (
        "Stopped at step 9 of 12: 4 evaluations without a better validation auc. "
        "The state of step 5 is kept."
    )
