import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pipeline.checkpoint import load_arrays, newest_whole
from pipeline.config_file import load_config
from pipeline.errors import MachineFailed, Terminated, TrainingDiverged
from pipeline.runs import WORK, Run, Stage, read_stage
from pipeline.score import Scorer, score_folder
from pipeline.train import Trainer, train
from pipeline.trained_model import load_best, load_schema
from tests.conftest import Silent


@pytest.fixture
def new_run(small_run, tmp_path):
    """A run with the small data set ingested and nothing trained."""
    config_path, result, _ = small_run

    def make(*overrides):
        config = load_config(config_path, overrides)
        folder = tmp_path / "run"
        if not folder.exists():
            shutil.copytree(f"{result['run_dir']}/dataset", folder / "dataset")
        return Run(config, folder, Silent())

    return make


def fit(run, name):
    folder = run.folder / name
    folder.mkdir()
    facts = Trainer(run, folder).fit()
    return facts, load_arrays(folder / "best")[0]


@pytest.fixture(scope="module")
def uninterrupted(small_run, tmp_path_factory):
    """What `fit` returns of a training that goes through, once for the same overrides."""
    config_path, result, _ = small_run
    done = {}

    def train(*overrides):
        if overrides not in done:
            folder = tmp_path_factory.mktemp("whole")
            (folder / "dataset").symlink_to(f"{result['run_dir']}/dataset")
            run = Run(load_config(config_path, overrides), folder, Silent())
            done[overrides] = fit(run, "whole")
        return done[overrides]

    return train


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name], err_msg=name)


def test_one_seed_gives_one_model_and_another_seed_another(new_run, small_run):
    # TRN-10
    _, result, _ = small_run
    first, _ = load_arrays(Path(result["run_dir"]) / "train" / "best")
    _, again = fit(new_run(), "again")
    assert_same(first, again)
    _, other = fit(new_run("seed=8", "train.epochs=1"), "other")
    assert not np.array_equal(first["embeddings"], other["embeddings"])


LR = "model={kind: lr, features: [item_id, category, price]}"
"""A model that takes little time, where any will do."""


class Interrupted(Exception):
    pass


FALLING_RATES = (
    "train.schedule={kind: plateau, factor: 0.5}",
    "train.warmup_steps=3",
    "train.table_optimizer.kind=adagrad",
    "train.dense_optimizer={kind: sgd, momentum: 0.9}",
    "train.learning_rate=0.2",
)


OWN_CHANCE = (  # models that draw random numbers of their own in training
    "model={kind: dien, embedding_dim: 4, hidden_units: [8]}",
    "model={kind: memnn, embedding_dim: 4, hidden_units: [8], ranking_loss: 0.5}",
)


@pytest.mark.parametrize(
    ("steps", "overrides"),
    [
        (1, ["train.xla=false"]),
        (5, ["train.xla=false"]),
        (10, ["train.xla=false", *FALLING_RATES]),
        pytest.param(13, ["train.xla=true"], marks=pytest.mark.slow),  # compiles three times
        *(
            pytest.param(5, ["train.xla=false", model], marks=pytest.mark.slow)
            for model in OWN_CHANCE
        ),
    ],
)
def test_an_interrupted_run_continues_to_the_same_weights_to_the_bit(
    new_run, uninterrupted, monkeypatch, steps, overrides
):
    overrides = ("model.dropout_rate=0.2", *overrides)
    run = new_run(*overrides)
    whole_facts, whole = uninterrupted(*overrides)
    folder = run.folder / "killed"
    folder.mkdir()
    trainer = Trainer(run, folder)
    account = trainer._account

    def stop_after(loss):
        account(loss)
        if trainer.state.step == steps:
            raise Interrupted

    monkeypatch.setattr(trainer, "_account", stop_after)
    with pytest.raises(Interrupted):
        trainer.fit()
    resumed = Trainer(run, folder)
    facts = resumed.fit()
    assert_same(load_arrays(folder / "best")[0], whole)
    assert facts["steps"] == whole_facts["steps"]
    assert facts["evaluations"] == whole_facts["evaluations"]


@pytest.mark.parametrize("damaged", ["step-*", "best-*"])
def test_damage_to_the_newest_state_costs_its_steps_and_changes_no_weight(
    new_run, monkeypatch, damaged
):
    overrides = [LR, "train.checkpoint_steps=1", "train.epochs=1"]
    _, whole = fit(new_run(*overrides), "whole")
    run = new_run(*overrides)
    folder = run.folder / "killed"
    folder.mkdir()
    trainer = Trainer(run, folder)
    evaluate = trainer._evaluate

    def stop_after():
        evaluate()
        trainer._save()
        raise Interrupted

    monkeypatch.setattr(trainer, "_evaluate", stop_after)
    with pytest.raises(Interrupted):
        trainer.fit()
    newest = max((folder / WORK).glob(damaged))
    (newest / "state.json").write_text('{"arrays": {}, "st')
    Trainer(run, folder).fit()
    assert_same(load_arrays(folder / "best")[0], whole)
    warnings = [fields["message"] for name, fields in run.progress.events if name == "warning"]
    assert "is deleted, and what came after" in warnings[0]


@pytest.mark.parametrize(
    ("overrides", "dataset"), [(["train.learning_rate=0.02"], "first"), ([], "other")]
)
def test_checkpoints_of_another_config_or_data_set_are_not_used(
    new_run, monkeypatch, overrides, dataset
):
    common = [LR, "train.checkpoint_steps=1", "train.epochs=1"]
    run = new_run(*common)
    with monkeypatch.context() as patch:
        patch.setattr("pipeline.train.termination_requested", lambda: True)
        with pytest.raises(Terminated):
            train(run, Stage("first", {}, 0.0, reused=True))
    assert list((run.folder / ".train.partial" / WORK).glob("step-*"))
    changed = new_run(*common, *overrides)
    train(changed, Stage(dataset, {}, 0.0, reused=True))
    assert "resumed" not in dict(changed.progress.events)
    assert_same(load_arrays(changed.train / "best")[0], fit(changed, "whole")[1])


@pytest.mark.parametrize("moment", ["sums", "sealed", "replaced"])
def test_a_kill_after_the_last_step_repeats_no_step(new_run, monkeypatch, moment):
    run = new_run(LR, "train.epochs=1")
    _, whole = fit(run, "whole")

    def kill(*_, **__):
        raise Interrupted

    # while the files' checksums are taken, before the stage's file is there, and before its place
    name = {"sums": "file_sums", "sealed": "write_sealed", "replaced": "_replace"}[moment]
    with monkeypatch.context() as patch:
        patch.setattr(f"pipeline.runs.{name}", kill)
        with pytest.raises(Interrupted):
            train(run, Stage("dataset", {}, 0.0, reused=True))
    monkeypatch.setattr(Trainer, "_epoch", lambda *_: pytest.fail("a step was repeated"))
    train(run, Stage("dataset", {}, 0.0, reused=True))
    assert_same(load_arrays(run.train / "best")[0], whole)
    names = sorted(path.name for path in run.train.iterdir())
    assert names == ["best", "history.json", "stage.json"]


def test_kept_weights_that_the_disk_changed_are_named_with_what_to_do(small_run, tmp_path):
    config_path, result, _ = small_run
    folder = shutil.copytree(result["run_dir"], tmp_path / "run")
    path = folder / "train" / "best" / "0000.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    run = Run(load_config(config_path), folder, Silent())
    with pytest.raises(MachineFailed, match=r"0000\.npy: checksum differs.*delete .*run/train"):
        load_best(run, load_schema(run))


def test_the_first_step_of_each_process_is_not_timed(new_run, small_run):
    """It compiles; so no rows of it count, in a resumed training as in one that goes through."""
    run = new_run("train.batch_size=500", "train.epochs=1", "train.checkpoint_steps=1")
    folder = run.folder / "timed"
    folder.mkdir()
    rows = small_run[1]["rows"]["train"]
    sizes = [500] * (rows // 500) + [rows % 500] * (rows % 500 > 0)
    counted = []
    for stop in (2, 3, len(sizes)):
        trainer = Trainer(run, folder)

        def save(trainer=trainer, stop=stop, saved=trainer._save):
            saved()
            if trainer.state.step == stop < len(sizes):
                raise Interrupted

        trainer._save = save
        if stop < len(sizes):
            with pytest.raises(Interrupted):
                trainer.fit()
        else:
            trainer.fit()
        counted.append(trainer.state.examples)
    # of steps 1 2 | 3 | 4 … the first of each is left out
    assert counted == [sizes[1], sizes[1], sizes[1] + sum(sizes[4:])]


def test_the_kept_state_scores_the_best_evaluation_not_the_last(new_run, monkeypatch):
    # TRN-08
    # a rate that ruins the model after a while: the best evaluation comes early
    run = new_run(LR, "train.learning_rate=1.0", "train.epochs=6", "train.patience=3")
    folder = run.folder / ".train.partial"
    folder.mkdir()
    facts = Trainer(run, folder).fit()
    folder.rename(run.train)
    aucs = {entry["step"]: entry["auc"] for entry in facts["evaluations"]}
    assert facts["best_step"] == max(aucs, key=aucs.get)
    assert facts["steps"] > facts["best_step"]
    assert "Stopped at step" in facts["stopped"]
    schema = load_schema(run)
    scorer = Scorer(load_best(run, schema), schema, 256, xla=False)
    scored = score_folder(scorer, run.dataset / "valid", run.config)
    assert roc_auc_score(scored.labels, scored.scores) == pytest.approx(
        aucs[facts["best_step"]], abs=1e-9
    )


def test_patience_counts_evaluations_without_a_better_one(new_run):
    run = new_run(LR, "train.learning_rate=0.3", "train.epochs=50", "train.patience=2")
    facts, _ = fit(run, "train")
    steps = [entry["step"] for entry in facts["evaluations"]]
    assert steps.index(facts["best_step"]) == len(steps) - 3


def test_rates_drop_after_evaluations_without_a_better_one(new_run, monkeypatch):
    run = new_run(
        LR,
        "train.schedule={kind: plateau, factor: 0.5, patience: 2, min_factor: 0.2}",
        "train.patience=7",
        "train.learning_rate=0.02",
        "train.epochs=9",
    )
    folder = run.folder / "train"
    folder.mkdir()
    trainer = Trainer(run, folder)
    auc = iter([0.6, 0.5, 0.5, 0.7, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    monkeypatch.setattr(
        "pipeline.train.evaluate",
        lambda *_: dict.fromkeys(("gauc", "log_loss", "ne", "calibration")) | {"auc": next(auc)},
    )
    facts = trainer.fit()
    rates = [entry["learning_rate"] for entry in facts["evaluations"]]
    # halved after two evaluations without a better one, no lower than a fifth
    right = [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2]
    assert rates == pytest.approx([0.02 * factor for factor in right])


def test_a_loss_that_is_not_finite_ends_training(new_run, monkeypatch):
    run = new_run(LR)
    folder = run.folder / "train"
    folder.mkdir()
    trainer = Trainer(run, folder)
    monkeypatch.setattr(trainer, "train_step", lambda batch, step, rate: float("nan"))
    with pytest.raises(TrainingDiverged, match=r"step 1: the loss is nan.*learning_rate"):
        trainer.fit()


def test_termination_writes_a_checkpoint_and_says_so(new_run, monkeypatch):
    run = new_run(LR, "train.checkpoint_steps=1000")
    folder = run.folder / "train"
    folder.mkdir()
    trainer = Trainer(run, folder)
    monkeypatch.setattr("pipeline.train.termination_requested", lambda: trainer.state.step == 2)
    with pytest.raises(Terminated, match="stopped after step 2; a checkpoint is written"):
        trainer.fit()
    found = newest_whole(folder / WORK, pytest.fail)
    assert found is not None
    assert found[1]["step"] == 2


def test_score_does_not_depend_on_the_size_of_the_batch(new_run, small_run):
    _, result, _ = small_run
    run = new_run()
    shutil.copytree(f"{result['run_dir']}/train", run.train)
    assert read_stage(run.train) is not None
    schema = load_schema(run)
    model = load_best(run, schema)
    scores = [
        score_folder(Scorer(model, schema, size, xla=False), run.dataset / "test", run.config)
        for size in (1, 7, 512)
    ]
    for scored in scores[1:]:
        np.testing.assert_allclose(scored.scores, scores[0].scores, atol=1e-6)
