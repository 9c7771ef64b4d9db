# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from models.registry import MODELS
from pipeline.config_file import load_config, parse
from pipeline.config_yaml import read_document
from pipeline.errors import ConfigError

ROOT = Path(__file__).parents[2]
GOOD = """\
name: x
data: {files: log.csv}
label: click
time: {column: ts, unit: s}
entity: user
features:
  user: {kind: categorical}
  item: {kind: categorical}
  price: {kind: numeric}
  clicks: {kind: history, of: [item]}
model: din
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "c.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def refusal(path, *overrides):
    """Return the lines of the refusal, without the path of the file."""
    with pytest.raises(ConfigError) as error:
        load_config(path, overrides)
    return str(error.value).replace(str(path), "c.yaml").split("\n")


def replaced(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.mark.parametrize("path", sorted((ROOT / "configs").rglob("*.yaml")), ids=lambda p: p.stem)
def test_every_config_of_the_project_is_valid(path, monkeypatch, tmp_path):
    monkeypatch.setenv("CLICKLOOM_DATA", str(tmp_path))
    assert load_config(path).name
    text = path.read_text(encoding="utf-8")
    assert text.startswith("#"), "a config starts with what it is and how it is run"
    assert f"run configs/{path.relative_to(ROOT / 'configs')}" in text


NO_MAPPING = {
    "": "got nothing",
    "# only a comment\n": "got nothing",
    "- a\n- b\n": r"got \['a', 'b'\]",
    "hello": "got 'hello'",
    "name: x\n\tdata: y\n": r"c.yaml:2:1: not valid YAML: .*indent with spaces, not tabs",
    "name: [1,\n": "not valid YAML",
    "name: 'x\n": "not valid YAML",
    "name: *nobody\n": r"c.yaml:1:7: not valid YAML: found undefined alias",
    "name: x\n---\nname: y\n": r"c.yaml:2:1: not valid YAML: but found another document",
    "label:\n  positive: >= 4\n": r'c.yaml:2:14: .*put a text such as ">= 4" in quotes',
    "name: \0": "not valid YAML",
    b"name: \xe9": "cannot be read as UTF-8 text",
}


@pytest.mark.parametrize("text", NO_MAPPING, ids=range(len(NO_MAPPING)))
def test_what_is_no_mapping_is_refused_with_its_place(file, text):
    with pytest.raises(ConfigError, match=NO_MAPPING[text]):
        load_config(file(text))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"no\.yaml: there is no such file"):
        load_config(tmp_path / "no.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path)


def test_all_problems_are_listed_with_line_column_and_key_path(file):
    text = replaced("entity: user", "entty: user").replace(
        "kind: numeric", "kind: numeric, sclae: standard"
    )
    text += "seed: abc\ntrain: {epochs: 0, batchsize: 3}\nbins: 4\n"
    assert refusal(file(text)) == [
        "c.yaml: 7 problems",
        "c.yaml:5:1: entty: unknown key: did you mean 'entity'?",
        "c.yaml:9:26: features.price.sclae: unknown key: did you mean 'scale'?",
        "c.yaml:10:3: features.clicks: a history needs to know whose it is: give entity, such as "
        "user_id",
        "c.yaml:12:1: seed: expected a whole number; got 'abc'",
        "c.yaml:13:9: train.epochs: expected greater than or equal to 1; got 0",
        "c.yaml:13:20: train.batchsize: unknown key: did you mean 'batch_size'?",
        "c.yaml:14:1: bins: unknown key: it belongs in evaluate",
    ]


def test_repeated_keys_are_refused_wherever_they_stand(file):
    text = replaced("kind: numeric", "kind: numeric, log: true, log: false") + "name: y\n"
    assert refusal(file(text)) == [
        "c.yaml: 2 problems",
        "c.yaml:1:1: name: stands twice, in lines 1 and 12",
        "c.yaml:9:26: features.price.log: stands twice, in lines 9 and 9",
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("{kind: numeric}", "{}", "features.price.kind: is missing"),
        ("{kind: numeric}", "", "features.price: expected keys and values; got None"),
        ("{kind: numeric}", "{kind: numric}",
         "unknown kind 'numric': did you mean 'numeric'? kinds are categorical, numeric, bucketed, "
         "datetime, history"),
        ("{kind: numeric}", "{kind: numeric, clip: [1]}", "features.price.clip.1: is missing"),
        ("{kind: numeric}", "{kind: numeric, clip: [1, 2, 3]}", "clip: expected at most 2"),
        ("{kind: numeric}", "{kind: numeric, clip: [2, 1]}", "price: clip: 2 is not below"),
        ("{kind: numeric}", "{kind: numeric, log: maybe}", "log: expected true or false"),
        ("name: x\n", "", "name: is missing"),
        ("name: x", "name: [x]", "name: expected text"),
        ("name: x", "name:", "name: is missing"),
        ("name: x", "name: .x", "name: expected letters, digits, _ . and -, no . or - in front"),
        ("name: x", "name: x\nengine: {memory: 8}", "memory: expected a size of memory such"),
        ("label: click", "label: [click]", "label: expected keys and values"),
        ("label: click", "label: {}", "label.column: is missing"),
        ("{files: log.csv}", "{}", "data.files: is missing"),
        ("{files: log.csv}", "{files: []}", "data.files: expected at least 1"),
        ("{files: log.csv}", "{files: x, format: cvs}", "did you mean 'csv'"),
        ("{files: log.csv}", "{files: x, joins: [{files: y}]}", "data.joins.0.on: is missing"),
        ("model: din", "model: 3", "model: expected keys and values; got 3"),
        ("model: din", "model: {kind: din, embedding_dim: true}",
         "model.embedding_dim: expected a whole number; got True"),
        ("{kind: numeric}", "{kind: numeric, clip: [0, true]}", "clip.1: expected a number; got T"),
        ("of: [item]", "of: [item], gap_s: false", "clicks.gap_s: expected a number; got False"),
        ("model: din", "model: denn",
         f"no model is called 'denn': did you mean 'dien'? kinds are {', '.join(MODELS)}"),
        ("entity: user", "entity: user\nkeys: {a: b}", "keys: expected a list"),
        ("entity: user", "entity: user\nkeys: [user, null]", "keys.1: expected text; got None"),
        ("entity: user", "entity: user\nsplit: hsh", "split.kind: unknown kind 'hsh': did you"),
        ("entity: user", "entity: user\nsplit: x", "unknown kind 'x': kinds are time, hash, user,"),
        ("entity: user", "entity: user\ntrain: [1]", "train: expected keys and values"),
        ("entity: user", "entity: user\n<<: {seed: 3}", "<<: unknown key"),
        ("entity: user", "entity: user\n? [a]\n: b", "a key must be a text"),
    ],
)  # fmt: skip
def test_each_wrong_part_is_one_problem(file, old, new, problem):
    header, *lines = refusal(file(replaced(old, new)))
    assert header == "c.yaml: 1 problem"
    assert problem in lines[0]
    assert lines[0].startswith("c.yaml")


def test_wrong_parts_lead_to_no_further_problems(file):
    """What needs a part that is wrong is not wrong for that reason."""
    text = replaced("time: {column: ts, unit: s}", "time: {column: ts, unit: s, format: '%Y'}")
    text = text.replace("item: {kind: categorical}", "item: {kind: categorcal}")
    header, *lines = refusal(file(text + "split: {kind: time, valid: 2}\n"))
    assert header == "c.yaml: 3 problems"
    assert [line.split(": ")[1] for line in lines] == ["time", "features.item.kind", "split.valid"]


def test_sections_without_content_keep_their_defaults(file):
    config = load_config(file(GOOD + "train:\nkeys:\nsplit:\n"))
    assert config.train.epochs == 3
    assert config.keys == ()


def test_yaml_1_2_and_dates_as_texts(file):
    text = GOOD + "split: {kind: time, valid_from: 2026-01-05, test_from: 2026-02-05}\n"
    config = load_config(file(text + "train: {learning_rate: 1e-3}\nkeys: [no, on]\n"))
    assert config.split.valid_from == "2026-01-05"
    assert config.train.learning_rate == 0.001
    assert config.keys == ("no", "on")


def test_keys_that_are_no_texts_are_names_like_others(file):
    text = replaced("  price: {kind: numeric}", "  7: {kind: numeric}\n  true: {kind: numeric}")
    lines = refusal(file(text))[1:]
    assert lines[0].startswith("c.yaml:9:3: features.7: a name has letters, digits and _ only")
    assert len(lines) == 1


def test_what_refers_to_itself_ends(file):
    assert "keys.1: refers to itself" in "".join(refusal(file(GOOD + "keys: &k [user, *k]\n")))


def test_tags_run_nothing(file):
    config = load_config(file(replaced("name: x", "name: !!python/object/apply:os.getcwd x")))
    assert config.name == "x"


def test_overrides_of_all_types(file):
    path = file(GOOD)
    config = load_config(
        path,
        [
            "train.epochs=5",
            "label.positive=>= 1",
            "model.hidden_units=[8, 4]",
            "keys=[user, item]",
            "keys.1=ts",
            "features.city={kind: categorical}",
            "data.files=[a.csv, b.csv]",
            "split.valid_from=2026-01-01",
            "split.test_from=2026-02-01",
            "split.kind=time",
            "entity=",
            "entity=user",
        ],
    )
    assert config.train.epochs == 5
    assert config.label.comparison == (">=", 1.0)
    assert config.model == {"kind": "din", "hidden_units": [8, 4]}
    assert config.keys == ("user", "ts")
    assert list(config.features)[-1] == "city"
    assert config.data.files == ("a.csv", "b.csv")
    assert config.split.valid_from == "2026-01-01"


def test_wrong_overrides_are_named(file):
    path = file(GOOD)
    assert refusal(path, "train.epochs=x")[1] == (
        "--set train.epochs=x: train.epochs: expected a whole number; got 'x'"
    )
    # what a section sets is not looked for where the file, or an earlier option, had it
    data = "data={files: log.csv, quoted: 3}"
    assert refusal(path, "data.quoted=2", data)[1:] == [
        f"--set {data}: data.quoted: expected true or false; got 3"
    ]
    item = "features.item={kind: numeric, clip: 2}"
    assert refusal(path, item)[1].startswith(f"--set {item}: features.item.clip: ")
    features = "features={user: {kind: no}}"
    assert refusal(path, features)[1].startswith(
        f"--set {features}: features.user.kind: unknown kind"
    )
    assert refusal(path, "no.such=1")[1].startswith("--set no.such=1: no: unknown key")
    assert "expected key.path=value" in refusal(path, "train.epochs")[0]
    assert "expected key.path=value" in refusal(path, "=3")[0]
    assert "name holds 'x', no keys below it" in refusal(path, "name.x=1")[0]
    assert "of is a list of 1" in refusal(path, "features.clicks.of.3=x")[0].replace(
        "features.clicks.", ""
    )


def test_problems_of_one_kind_do_not_hide_those_of_another(file):
    """Unknown keys, wrong values, faults across keys and faults of the model, all at once."""
    text = replaced("model: din", "model: {kind: fm, hiden_units: [8], embedding_dim: 0}")
    text = text.replace("of: [item]", "of: [itm]") + "evaluate: {metrics: [gauc, aux]}\n"
    text = text.replace("entity: user\n", "")
    lines = "\n".join(refusal(file(text)))
    for problem in (
        "features.clicks.of.0: 'itm' is no feature with one id a row: did you mean 'item'?",
        "features.clicks: a history needs to know whose it is",
        "model.hiden_units: unknown key: fm has",
        "hidden_units is an option of nfm",
        "model.embedding_dim: expected greater than or equal to 1; got 0",
        "evaluate.metrics: gauc needs groups",
        "evaluate.metrics.1: expected one of auc",
    ):
        assert problem in lines


def test_parse_keeps_what_is_right(file):
    parsed = parse(read_document(file(GOOD + "keys: [a, {b: c}, d]\nnope: 1\n")))
    assert parsed.config.keys == ("a", "d")
    assert parsed.dropped == {("keys", 1), ("nope",)}
    assert not parsed.has_dropped("entity")
    assert parsed.has_dropped("keys")
