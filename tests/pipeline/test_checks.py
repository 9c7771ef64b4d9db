# SPDX-License-Identifier: Apache-2.0
import os
import time

import pytest

from pipeline.checks import validate_file
from pipeline.errors import ConfigError
from pipeline.workflow import run

CONFIG = """\
name: x
data: {{files: "{folder}/log.csv"}}
label: click
time: {{column: ts, unit: s}}
entity: user
features:
  user: {{kind: categorical}}
  item: {{kind: categorical}}
  price: {{kind: numeric}}
  clicks: {{kind: history, of: [item]}}
model: din
"""


@pytest.fixture
def validate(tmp_path):
    (tmp_path / "log.csv").write_text("user,item,price,click,ts\nu1,i1,1.5,0,1\nu2,i2,2,1,2\n")

    def check(*changes, overrides=(), date=None):
        text = CONFIG.format(folder=tmp_path)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "c.yaml"
        path.write_text(text)
        problems, notes = validate_file(path, overrides, date)
        return [p.replace(f"{tmp_path}/", "") for p in problems], notes

    check.folder = tmp_path
    return check


def test_a_valid_config_has_neither_problems_nor_notes(validate):
    assert validate() == ([], [])


def test_configuration_errors_in_seconds(validate):
    """USE-01: all at once, each with its place and the nearest valid name."""
    started = time.monotonic()
    problems, notes = validate(
        ("model: din", "model: {kind: fm, hiden_units: [8], embedding_dim: 0, "
                       "features: [user, item, prise, clicks, shop]}"),
        ("entity: user\n", ""),
        ("{kind: numeric}", "{kind: numeric, column: prise}"),
        ("  user:", "  shop: {kind: categorical}\n  user:"),
    )  # fmt: skip
    assert time.monotonic() - started < 10
    expected = {
        "c.yaml:6:3: features.shop: log.csv: has no column 'shop'": None,
        "c.yaml:9:26: features.price.column: log.csv: has no column 'prise': "
        "did you mean 'price'?": None,
        "c.yaml:10:3: features.clicks: a history needs to know whose it is: give entity": None,
        "c.yaml:11:1: model: fm takes no history feature: `clicks`": None,
        "c.yaml:11:19: model.hiden_units: unknown key": "hidden_units is an option of nfm",
        "c.yaml:11:37: model.embedding_dim: expected greater than or equal to 1; got 0": None,
        "model.features.2: no feature is called 'prise': did you mean 'price'?": None,
    }
    for start, also in expected.items():
        found = [problem for problem in problems if start in problem]
        assert len(found) == 1, start
        assert also is None or also in found[0]
    assert len(problems) == len(expected)
    assert notes == [
        "features.price: declared, but model.features leaves it out",
        "columns that nothing reads: price",
    ]


def test_run_refuses_what_validate_refuses(validate):
    validate(("model: din", "model: {kind: din, hiden_units: [8]}"))
    with pytest.raises(ConfigError, match=r"c\.yaml:11:20: model\.hiden_units: unknown key"):
        run(validate.folder / "c.yaml", validate.folder / "runs")
    assert not (validate.folder / "runs").exists()


def test_declared_but_unused_features_are_a_note(validate):
    change = ("model: din", "model: {kind: din, features: [item, clicks]}")
    problems, notes = validate(change)
    assert problems == []
    assert notes == [
        "features.user: declared, but model.features leaves it out",
        "features.price: declared, but model.features leaves it out",
    ]


@pytest.mark.parametrize("kind", ["fm", "ffm", "fwfm", "fmfm", "afm", "nfm"])
def test_pairs_of_a_single_field_are_a_note(validate, kind):
    note = f"model: {kind} has pairs of fields, and item is the only field: lr scores the same"
    _, notes = validate(("model: din", f"model: {{kind: {kind}, features: [item]}}"))
    assert [n for n in notes if n.startswith("model")] == [note + " with fewer weights"]
    chosen = f"{{kind: {kind}, features: [item, price], numeric_input: dense}}"
    _, notes = validate(("model: din", f"model: {chosen}"))
    assert any(n.startswith(note) for n in notes)
    _, notes = validate(("model: din", f"model: {{kind: {kind}, features: [item, price]}}"))
    assert not any(n.startswith("model") for n in notes)
    _, notes = validate(("model: din", "model: {kind: lr, features: [item]}"))
    assert not any(n.startswith("model") for n in notes)


def test_columns_that_nothing_reads_are_a_note(validate):
    _, notes = validate(("  price: {kind: numeric}\n", ""))
    assert notes == ["columns that nothing reads: price"]


@pytest.mark.parametrize(
    ("old", "new", "problems"),
    [
        # references between features
        ("of: [item]", "of: [price, itm]", [
            "10:32: features.clicks.of.0: 'price' is no feature with one id a row",
            "10:39: features.clicks.of.1: 'itm' is no feature with one id a row: did you mean"]),
        ("item: {kind: categorical", "item: {kind: categorical, separator: ' '", [
            "features.clicks.of.0: 'item' is a list, not a feature with one id a row"]),
        ("  user:", "  a: {kind: categorical, column: item, table: itm}\n  user:", [
            "7:40: features.a.table: 'itm' is not a categorical feature: did you mean 'item'?"]),
        ("  user:", "  a: {kind: categorical, column: item, table: user}\n"
                    "  b: {kind: categorical, column: item, table: a}\n  user:", [
            "features.b.table: 'a' has no table of its own; name 'user'"]),
        # names
        ("  price:", "  my price: {kind: numeric, column: price}\n  price:", [
            "features.my price: a name has letters, digits and _ only"]),
        ("  price:", "  group:", ["features.group: is a reserved name",
                                  "features.group: log.csv: has no column 'group'"]),
        ("  price:", "  Item: {kind: categorical, column: item}\n  price:", [
            "features.Item: differs from feature 'item' only in upper and lower case"]),
        ("  price:", "  clicks_item: {kind: categorical, column: item}\n  price:", [
            "features.clicks: makes a column 'clicks_item', which feature 'clicks_item' is"]),
        ("{kind: numeric}", "{kind: numeric, missing_flag: true}\n"
                            "  price_missing: {kind: numeric, column: price}", [
            "features.price: makes a column 'price_missing', which feature 'price_missing' is"]),
        ("entity: user", "entity: user\nkeys: [user, user, score]", [
            "keys.1: 'user' stands twice", "keys.2: 'score' is a column of predictions",
            "keys.2: log.csv: has no column 'score'"]),
        # columns
        ("  price:", "  seen: {kind: categorical, column: click}\n  price:", [
            "features.seen: reads the label's column: the model would be told the answer"]),
        ("  price:", "  cheap: {kind: categorical, column: price}\n  price:", [
            "features.price: features that read column 'price' differ: type"]),
        ("  price:", "  clicks_gap: {kind: categorical, column: item}\n  price:", []),
        ("of: [item]", "of: [item], time_gap: true}\n"
                       "  clicks_gap: {kind: categorical, column: item", [
            "features.clicks: makes a column 'clicks_gap', which feature 'clicks_gap' is"]),
        # what only past events have: the label may be among it
        ("of: [item]", "of: [item, seen]}\n"
                       "  seen: {kind: categorical, column: click, past_only: true", []),
        ("  price:", "  shop: {kind: categorical, column: item, past_only: true}\n  price:", [
            "features.shop.past_only: only past events have it and no history carries it"]),
        ("of: [item]}\nmodel: din", "of: [item, seen]}\n"
            "  seen: {kind: categorical, column: item, past_only: true}\n"
            "model: {kind: din, features: [item, clicks, seen]}", [
            "model.features.2: 'seen' is past_only: only the histories that carry it"]),
        # time, entity, groups
        ("unit: s", "format: '%Q'", ["4:20: time.format: format '%Q': %Q is not one of"]),
        ("time: {column: ts, unit: s}\n", "", [
            "split: a split by time, the default, needs time",
            "features.clicks: a history needs to know when events happened"]),
        ("time: {column: ts, unit: s}\nentity: user\n", "split: leave_last_out\n", [
            "split: leave_last_out needs entity and time",
            "features.clicks: a history needs to know whose it is",
            "features.clicks: a history needs to know when"]),
        ("entity: user", "split: user", [
            "split: a split by user needs entity, or column",
            "features.clicks: a history needs to know whose it is"]),
        # models
        ("  clicks: {kind: history, of: [item]}\n", "", ["model: din needs a history feature"]),
        ("model: din", "model: fm", ["model: fm takes no history feature: `clicks`; leave it out "
                                     "with `features: [user, item, price]` or use base or din"]),
        ("model: din", "model: {kind: din, features: user}", ["model.features: expected a list"]),
        ("model: din", "model: {kind: din, features: [user, item, clicks, user]}", [
            "11:20: model.features: names user twice; name each feature once"]),
        ("model: din", "model: {kind: }", ["model.kind: is missing: one of lr, fm"]),
        ("model: din", "model: {kind: [din]}", ["model.kind: no model is called ['din']"]),
        # data
        ("log.csv", "lg.csv", ["2:8: data.files: lg.csv: no such file"]),
        ("log.csv", "c.yaml", ["data.files: c.yaml: the ending does not say the format"]),
        ("log.csv", "{date}.csv", ["data.files: {date}.csv: {date} needs a date"]),
        ("log.csv", "${NO_SUCH}.csv", ["environment variable NO_SUCH is not set"]),
    ],
)  # fmt: skip
def test_each_fault_across_keys_is_found_alone(validate, old, new, problems):
    found, _ = validate((old, new))
    assert len(found) == len(problems), found
    for problem in problems:
        assert any(problem in one for one in found), (problem, found)


def test_gauc_needs_groups_wherever_it_is_asked_for(validate):
    without_user = [
        ("entity: user\n", ""),
        ("  clicks: {kind: history, of: [item]}\n", ""),
        ("model: din", "model: fm\ntrain: {monitor: gauc}\nevaluate: {metrics: [gauc], "
                       "gates: {gauc: {min: 0.5}}}"),
    ]  # fmt: skip
    problems, _ = validate(*without_user)
    assert [problem.split(": ")[1] for problem in problems] == [
        "train.monitor",
        "evaluate.metrics",
        "evaluate.gates.gauc",
    ]
    group = ("metrics: [gauc]", "group: user, metrics: [gauc]")
    assert validate(*without_user, group)[0] == []


def test_overrides_are_checked_with_the_rest(validate):
    problems, _ = validate(overrides=["features.price.column=prise", "train.monitor=gaucc"])
    assert sorted(problems) == [
        "--set features.price.column=prise: features.price.column: log.csv: has no column 'prise': "
        "did you mean 'price'?",
        "--set train.monitor=gaucc: train.monitor: expected one of auc, gauc, log_loss; "
        "got 'gaucc'; did you mean 'gauc'?",
    ]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("model.hidden_units=[8, 0]", "model.hidden_units.1: expected greater than or equal to 1"),
        ("model.features=[]", "model.features: expected at least 1; got []"),
        ("model.initial_stddev=.inf", "model.initial_stddev: expected a finite number; got "),
        ("model.embedding_dim=10000000000000000000000", "or equal to 100000; got 10000"),
        ("train.schedule={kind: plateau, patience: 4}", "training stops after 4 evaluations"),
    ],
)
def test_options_that_cannot_work_are_refused(validate, override, expected):
    problems, _ = validate(overrides=[override])
    assert len(problems) == 1
    assert expected in problems[0]


def test_penalties_name_tables_of_the_model(validate):
    problems, _ = validate(overrides=["train.table_l2={item: 0.1, usr: 0.1}"])
    assert problems == [
        "--set train.table_l2={item: 0.1, usr: 0.1}: train.table_l2.usr: the model has no table "
        "'usr': did you mean 'user'?"
    ]


def test_faults_of_joins_have_their_place(validate):
    joins = (
        'log.csv", joins: [{files: FOLDER/no.csv, on: user}, '
        "{files: FOLDER/log.csv, on: {itm: item}}]}"
    )
    problems, _ = validate(('log.csv"}', joins.replace("FOLDER", str(validate.folder))))
    assert [problem.split(": ", 2)[1:] for problem in problems] == [
        ["data.joins.0", "no.csv: no such file; the working folder is " + os.getcwd()],
        ["data.joins.1.on", "log.csv: has no column 'itm', the key of a join: "
                            "did you mean 'item'?"],
    ]  # fmt: skip


def test_dates_fill_paths(validate):
    (validate.folder / "2026-01-31.csv").write_text("user,item,price,click,ts\n")
    assert validate(("log.csv", "{date}.csv"), date="2026-01-31") == ([], [])
