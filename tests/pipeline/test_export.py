import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from pipeline.bundle import feed, load_facts, to_examples
from pipeline.config_file import load_config
from pipeline.errors import GateFailed
from pipeline.export import check_gates, versions
from pipeline.workflow import run
from tests.conftest import Silent, copy_stages, write_config

LENGTHS = {"clicks_length": "clicks_item_id"}


@pytest.fixture(scope="module")
def bundle(small_run):
    _, result, _ = small_run
    return Path(result["export"])


@pytest.fixture(scope="module")
def loaded(bundle):
    return tf.saved_model.load(str(bundle))


@pytest.fixture(scope="module")
def raw(small_run):
    _, result, _ = small_run
    return pq.read_table(Path(result["run_dir"]) / "dataset" / "parity" / "raw.parquet")


def example(**features):
    kinds = {str: "bytes_list", int: "int64_list", float: "float_list"}
    made = tf.train.Example()
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        target = getattr(made.features.feature[name], kinds[type(values[0])])
        target.value.extend(v.encode() if isinstance(v, str) else v for v in values)
    return made.SerializeToString()


REQUEST = {
    "item_id": "i00001",
    "category": "c00001",
    "city": "Brisk",
    "position": 3,
    "price": 12.5,
    "time": 1767600000,
    "clicks_item_id": ["i00002", "i00003"],
    "clicks_category": ["c00002", "c00003"],
}


def request_without(name):
    return example(**{key: value for key, value in REQUEST.items() if key != name})


def score(loaded, *requests):
    return loaded.signatures["serve_examples"](examples=tf.constant(list(requests)))[
        "score"
    ].numpy()


def test_the_signature_has_the_raw_names_and_types(loaded):
    # EXP-01
    signature = loaded.signatures["serving_default"].structured_input_signature[1]
    found = {name: (spec.dtype.name, spec.shape.rank) for name, spec in signature.items()}
    assert found == {
        "item_id": ("string", 1),
        "category": ("string", 1),
        "city": ("string", 1),
        "position": ("int64", 1),
        "price": ("float32", 1),
        "hour": ("int64", 1),
        "clicks_item_id": ("string", 2),
        "clicks_category": ("string", 2),
        "clicks_length": ("int32", 1),
    }
    assert all(None in spec.shape.as_list() for spec in signature.values())
    assert set(loaded.signatures["serving_default"].structured_outputs) == {"score", "logit"}
    assert set(loaded.signatures) == {"serving_default", "serve_examples"}


def test_the_bundle_is_all_that_serving_needs(small_run, tmp_path, raw, bundle):
    """Scores of a clean interpreter with TensorFlow alone equal the offline ones."""
    # EXP-02
    _, result, _ = small_run
    moved = tmp_path / "elsewhere"
    shutil.copytree(bundle, moved)
    signature = tf.saved_model.load(str(bundle)).signatures["serving_default"]
    inputs = feed(raw, signature.structured_input_signature[1], LENGTHS)
    np.savez(
        tmp_path / "inputs.npz",
        **{k: v.astype("S") if v.dtype == object else v for k, v in inputs.items()},
    )
    script = (
        "import sys, numpy as np, tensorflow as tf\n"
        "assert not {'features', 'models', 'pipeline'} & set(sys.modules)\n"
        f"serve = tf.saved_model.load({str(moved)!r}).signatures['serving_default']\n"
        f"inputs = np.load({str(tmp_path / 'inputs.npz')!r})\n"
        "scores = serve(**{name: tf.constant(inputs[name]) for name in inputs.files})['score']\n"
        f"np.save({str(tmp_path / 'scores.npy')!r}, scores.numpy())\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = signature(**{k: tf.constant(v) for k, v in inputs.items()})["score"].numpy()
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), expected, atol=1e-7)
    # and these rows' served scores are the offline scores: the run's own proof
    assert result["parity_max_abs_diff"] <= 1e-6


def test_served_scores_are_the_predictions_of_the_evaluation(small_run, small_log, loaded):
    """Rows read with pandas, histories built by hand, score what evaluate stored."""
    _, result, _ = small_run
    log = pd.read_csv(small_log, dtype=str, keep_default_na=False)
    stored = pd.read_parquet(Path(result["run_dir"]) / "evaluate" / "predictions" / "test.parquet")
    for _, row in stored.head(25).iterrows():
        event = log.iloc[row["row_id"]]
        clicks = log[
            (log["user_id"] == event["user_id"])
            & (log["click"] == "1")
            & (log["time"].astype(int) < int(event["time"]))
        ].tail(12)  # the model keeps 5: the graph has to cut
        request = {
            "item_id": event["item_id"],
            "category": event["category"],
            "city": event["city"],
            "position": int(event["position"]),
            "hour": int(event["time"]),
        }
        if event["price"]:
            request["price"] = float(event["price"])
        else:
            request["price"] = float("nan")
        if len(clicks):
            request["clicks_item_id"] = clicks["item_id"].tolist()
            request["clicks_category"] = clicks["category"].tolist()
        assert score(loaded, example(**request))[0] == pytest.approx(row["score"], abs=1e-6)


def request(**changes):
    made = {key if key != "time" else "hour": value for key, value in REQUEST.items()}
    return made | changes


def test_an_optional_column_may_be_absent_and_counts_as_missing(loaded):
    # EXP-04
    without = request()
    del without["city"]
    scores = score(loaded, example(**without), example(**request(city="")))
    assert scores[0] == scores[1]


def test_a_required_column_that_is_absent_is_named(loaded):
    without = request()
    del without["item_id"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="item_id"):
        score(loaded, example(**without))


def test_a_column_of_another_type_is_named_with_the_types(loaded):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"price[\s\S]*float"):
        score(loaded, example(**request(price=12)))


def test_unknown_columns_of_a_request_are_ignored(loaded):
    scores = score(loaded, example(**request()), example(**request(campaign="spring")))
    assert scores[0] == scores[1]


def test_unseen_values_share_one_id_and_missing_is_another(loaded):
    unseen, other, missing = score(
        loaded,
        example(**request(item_id="never")),
        example(**request(item_id="nowhere")),
        example(**request(item_id="")),
    )
    assert unseen == other
    assert unseen != missing


def test_the_bundle_says_which_length_belongs_to_which_list(bundle):
    assert load_facts(bundle)["lengths"] == LENGTHS


def test_both_signatures_agree_at_every_batch_size(loaded, raw):
    # EXP-03
    by_name = loaded.signatures["serving_default"]
    signature = by_name.structured_input_signature[1]
    whole = by_name(**{k: tf.constant(v) for k, v in feed(raw, signature, LENGTHS).items()})[
        "score"
    ].numpy()
    for size in (1, 13):
        for start in range(0, 26, size):
            part = raw.slice(start, size)
            named = by_name(
                **{k: tf.constant(v) for k, v in feed(part, signature, LENGTHS).items()}
            )
            parsed = score(loaded, *to_examples(part, signature))
            np.testing.assert_allclose(named["score"], whole[start : start + size], atol=1e-6)
            np.testing.assert_allclose(parsed, whole[start : start + size], atol=1e-6)


def test_a_longer_padding_changes_no_score(loaded, raw):
    by_name = loaded.signatures["serving_default"]
    inputs = feed(raw.slice(0, 8), by_name.structured_input_signature[1], LENGTHS)
    longer = dict(inputs)
    for name in ("clicks_item_id", "clicks_category"):
        longer[name] = np.concatenate([inputs[name], np.full((8, 200), b"x", object)], axis=1)
    scores = [
        by_name(**{k: tf.constant(v) for k, v in given.items()})["score"].numpy()
        for given in (inputs, longer)
    ]
    np.testing.assert_allclose(*scores, atol=1e-6)


@pytest.mark.parametrize(
    ("gate", "passed"), [({"min": 0.5}, True), ({"min": 0.99}, False), ({"max": 0.4}, False)]
)
def test_gates_compare_the_test_metric(small_run, gate, passed):
    config = load_config(small_run[0])
    config = config.model_copy(
        update={"evaluate": config.evaluate.model_validate({"gates": {"auc": gate}})}
    )
    found = check_gates(config, {"auc": 0.7, "undefined": {}})
    assert [entry["passed"] for entry in found] == [passed]


def test_an_undefined_metric_fails_its_gate(small_run):
    config = load_config(small_run[0], ["evaluate.gates.auc.min=0.5"])
    found = check_gates(config, {"auc": None, "undefined": {"auc": "only one class"}})
    assert not found[0]["passed"]


def test_a_missed_gate_publishes_nothing_and_leaves_the_old_version(small_run, tmp_path):
    config, _, runs = small_run
    shutil.copytree(runs, tmp_path / "runs")
    first = run(config, tmp_path / "runs", progress=Silent())
    assert versions(Path(first["export"]).parent) == [1]
    before = sorted(p.name for p in Path(first["export"]).iterdir())
    with pytest.raises(GateFailed, match=r"test auc is 0.*asks for at least 0\.999"):
        run(config, tmp_path / "runs", ["evaluate.gates.auc.min=0.999"], progress=Silent())
    folder = Path(first["export"]).parent
    assert versions(folder) == [1]
    assert sorted(p.name for p in Path(first["export"]).iterdir()) == before
    report = json.loads((Path(first["run_dir"]) / "report.json").read_text())
    assert report["status"] == "gate_failed"
    assert report["verdict"].startswith("Not published")
    # a changed export option publishes the next version; only `keep` stay
    again = run(
        config, tmp_path / "runs", ["export.keep=1", "export.parity_limit=2e-6"], progress=Silent()
    )
    assert Path(again["export"]).name == "2"
    assert versions(folder) == [2]


def test_a_damaged_record_of_what_is_published_leads_to_another_version(small_run, tmp_path):
    config, _, runs = small_run
    shutil.copytree(runs, tmp_path / "runs")
    record = tmp_path / "runs" / "small" / "main" / "export.json"
    assert Path(run(config, tmp_path / "runs", progress=Silent())["export"]).name == "1"
    record.write_text(record.read_text()[:40])
    again = run(config, tmp_path / "runs", progress=Silent())
    assert Path(again["export"]).name == "2"
    assert json.loads(record.read_text())["facts"]["version"] == 2


@pytest.mark.parametrize("moved", [False, True])
def test_a_kill_around_the_publishing_publishes_one_version(
    small_run, tmp_path, monkeypatch, moved
):
    config, result, _ = small_run
    stages = ("dataset", "train", "evaluate")
    folder = copy_stages(result["run_dir"], tmp_path / "runs", "small", *stages)
    rename = Path.rename

    def killed(path, target):
        if path.name != ".partial":
            return rename(path, target)
        if moved:
            rename(path, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path / "runs", progress=Silent())
    progress = Silent()
    run(config, tmp_path / "runs", progress=progress)
    assert versions(folder / "export") == [1]
    status = [fields["status"] for name, fields in progress.events if name == "export"]
    assert status == ["up to date" if moved else "done"]


def test_a_served_score_that_differs_is_never_published(small_run, tmp_path, monkeypatch):
    config, result, _ = small_run
    shutil.copytree(Path(result["run_dir"]).parent, tmp_path / "runs" / "small")
    shutil.rmtree(tmp_path / "runs" / "small" / "main" / "export")
    real = __import__("pipeline.export", fromlist=["feed"]).feed

    def wrong(table, signature, lengths):
        inputs = real(table, signature, lengths)
        inputs["price"] = inputs["price"] * np.float32(1.01)
        return inputs

    monkeypatch.setattr("pipeline.export.feed", wrong)
    with pytest.raises(GateFailed, match="a served score differs from the offline one"):
        run(config, tmp_path / "runs", progress=Silent())
    assert versions(tmp_path / "runs" / "small" / "main" / "export") == []


@pytest.mark.parametrize(("kind", "options"), [("sasrec", {"encoder_layers": 1}), ("memnn", {})])
def test_examples_of_whom_nobody_has_a_past_are_scored(
    kind, options, small_log, small_run, tmp_path
):
    """SEQ-06, as a server meets it: the lists of such a request have no place at all."""
    model = {"kind": kind, "embedding_dim": 4, "hidden_units": [8], **options}
    config = write_config(
        tmp_path / "c.yaml", {"data.files": str(small_log), "train.epochs": 1, "model": model}
    )
    copy_stages(small_run[1]["run_dir"], tmp_path / "runs", "small", "dataset")
    result = run(config, tmp_path / "runs", progress=Silent())
    loaded = tf.saved_model.load(result["export"])
    past = example(**request())
    nobody = example(**{k: v for k, v in request().items() if not k.startswith("clicks")})
    assert score(loaded, nobody)[0] == pytest.approx(score(loaded, nobody, past)[0], abs=1e-6)


def test_weights_that_an_example_lacks_count_1(small_log, tmp_path):
    """A weighted list served without weights, or with fewer, as the reader counts them."""
    log = pd.read_csv(small_log, dtype=str, keep_default_na=False)
    log["tags"] = np.where(log.index % 3 == 0, "a:0.5|b", np.where(log.index % 3 == 1, "b|c", ""))
    log.to_csv(tmp_path / "log.csv", index=False)
    tags = {"kind": "categorical", "separator": "|", "weight_separator": ":"}
    changes = {
        "data.files": str(tmp_path / "log.csv"),
        "features.tags": tags,
        "model": {"kind": "fm", "features": ["tags", "category"], "embedding_dim": 2},
        "train.epochs": 1,
    }
    config = write_config(tmp_path / "c.yaml", changes)
    result = run(config, tmp_path / "runs", progress=Silent())
    loaded = tf.saved_model.load(result["export"])
    base = {"category": "c00001", "tags": ["b", "c"]}
    given, none, fewer = score(
        loaded,
        example(**base, tags_weight=[1.0, 1.0]),
        example(**base),
        example(**base, tags_weight=[1.0]),
    )
    assert given == none == fewer
    half, one = score(
        loaded,
        example(category="c00001", tags=["a"], tags_weight=[0.5]),
        example(category="c00001", tags=["a"]),
    )
    assert half != one
