# SPDX-License-Identifier: Apache-2.0
import itertools
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from pipeline import metrics


@pytest.fixture
def clicks():
    """2,000 rows with many tied scores and uneven weights."""
    rng = np.random.default_rng(7)
    scores = np.round(rng.beta(1, 8, 2000), 2)
    labels = (rng.random(2000) < scores).astype(np.int64)
    return labels, scores, rng.uniform(0.1, 5, 2000), rng.integers(0, 200, 2000)


def pair_auc(labels, scores, weights):
    """Count every (clicked, unclicked) pair: 1 for the right order, 1/2 for a tie."""
    won = total = 0.0
    for i, j in itertools.product(np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)):
        pair = weights[i] * weights[j]
        won += pair * (1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0)
        total += pair
    return won / total if total else None


@st.composite
def rows(draw):
    """Labels, coarse scores (for ties), weights (some 0) and users."""
    size = draw(st.integers(0, 25))

    def column(values):
        return np.array(draw(st.lists(values, min_size=size, max_size=size)))

    return (
        column(st.integers(0, 1)),
        column(st.integers(0, 6)) / 6,
        column(st.sampled_from([0.0, 0.5, 1.0, 3.7])),
        column(st.sampled_from(["anna", "ben", "cleo"])),
    )


class TestAUC:
    def test_tiny_scores_are_ranked_exactly(self):
        # EVA-01
        assert metrics.auc([0, 0, 1, 1], [0.001, 0.002, 0.003, 0.004]) == 1.0

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ([(1, 0.5), (0, 0.5)], 0.5),
            # of the two pairs one is won and one is tied
            ([(1, 0.5), (0, 0.5), (0, 0.5), (1, 0.9)], 0.75),
        ],
    )
    def test_ties_count_half_in_every_row_order(self, rows, expected):
        # EVA-04
        for order in itertools.permutations(rows):
            labels, scores = zip(*order, strict=True)
            assert metrics.auc(labels, scores) == expected

    def test_weights_multiply_pairs(self):
        # pairs (1, 0): .8 > .3 won with 2·3, .8 < .9 lost with 2·1: 6 / 8
        assert metrics.auc([1, 0, 0], [0.8, 0.3, 0.9], [2, 3, 1]) == 0.75

    @pytest.mark.parametrize("labels", [[], [1], [0] * 10])
    def test_one_label_has_no_auc(self, labels):
        assert metrics.auc(labels, [0.5] * len(labels)) is None

    def test_zero_weight_removes_a_label(self):
        assert metrics.auc([1, 0], [0.5, 0.4], [1, 0]) is None

    def test_agrees_with_scikit_learn(self, clicks):
        labels, scores, weights, _ = clicks
        assert metrics.auc(labels, scores) == pytest.approx(
            sklearn_metrics.roc_auc_score(labels, scores), abs=1e-12
        )
        assert metrics.auc(labels, scores, weights) == pytest.approx(
            sklearn_metrics.roc_auc_score(labels, scores, sample_weight=weights), abs=1e-12
        )

    @given(rows())
    def test_equals_counted_pairs(self, drawn):
        labels, scores, weights, _ = drawn
        expected = pair_auc(labels, scores, weights)
        assert metrics.auc(labels, scores, weights) == (
            None if expected is None else pytest.approx(expected, abs=1e-12)
        )

    def test_neighbouring_floats_are_not_ties(self):
        above = np.nextafter(0.5, 1)
        assert metrics.auc([0, 1], [0.5, above]) == 1.0


class TestGAUC:
    LABELS = (1, 0, 0, 0, 0, 1, 1, 1)
    SCORES = (0.9, 0.3, 0.2, 0.1, 0.8, 0.4, 0.95, 0.05)
    USERS = np.array([1, 1, 1, 1, 2, 2, 3, 3])

    @pytest.mark.parametrize(
        "groups",
        [
            USERS,
            USERS + 2**62,
            USERS.astype(str),
            [f"u{user}" for user in USERS],
            pa.array(USERS),
            pa.chunked_array([["u1"] * 4 + ["u2"], ["u2", "u3", "u3"]]),
            pa.array(USERS.astype(str)).dictionary_encode(),
        ],
        ids=["int64", "large int64", "numpy text", "list", "arrow", "chunked", "dictionary"],
    )
    def test_three_weightings_whatever_the_ids(self, groups):
        # EVA-05
        # AUC: u1 1.0 (4 rows, 1 click), u2 0.0 (2 rows, 1 click), u3 has one label
        assert metrics.gauc(self.LABELS, self.SCORES, groups) == metrics.GroupedAUC(
            by_impressions=pytest.approx(4 / 6),
            by_users=0.5,
            by_clicks=0.5,
            users=2,
            excluded_users=1,
            excluded_rows=2,
        )
        assert metrics.auc(self.LABELS, self.SCORES) == 0.6875

    def test_row_order_does_not_matter(self):
        order = np.random.default_rng(1).permutation(8)
        columns = (np.asarray(c)[order] for c in (self.LABELS, self.SCORES, self.USERS))
        assert metrics.gauc(*columns) == metrics.gauc(self.LABELS, self.SCORES, self.USERS)

    def test_constant_scores_count_as_chance(self):
        result = metrics.gauc([1, 0, 1, 0], [0.3, 0.3, 0.8, 0.2], ["a", "a", "b", "b"])
        assert (result.by_users, result.users) == (0.75, 2)

    def test_weights_weigh_users(self):
        # a: AUC 1, weight 6, clicks 2; b: AUC 0, weight 2, clicks 1
        result = metrics.gauc([1, 0, 1, 0], [0.9, 0.1, 0.2, 0.8], list("aabb"), [2, 4, 1, 1])
        assert result.by_impressions == pytest.approx(6 / 8)
        assert result.by_clicks == pytest.approx(2 / 3)
        assert result.by_users == 0.5

    def test_rows_without_a_user_are_counted(self):
        result = metrics.gauc([1, 0, 1, 0], [0.9, 0.1, 0.2, 0.8], ["a", "a", None, None])
        assert result == metrics.GroupedAUC(1.0, 1.0, 1.0, 1, 0, 2)

    def test_zero_weight_rows_make_no_user(self):
        result = metrics.gauc([1, 0, 1], [0.9, 0.1, 0.2], ["a", "a", "b"], [1, 1, 0])
        assert result == metrics.GroupedAUC(1.0, 1.0, 1.0, 1, 0, 0)

    def test_no_user_with_both_labels(self):
        assert metrics.gauc([1, 0], [0.5, 0.5], ["a", "b"]) == metrics.GroupedAUC(
            None, None, None, 0, 2, 2
        )

    @settings(deadline=None)
    @given(rows())
    def test_equals_counted_pairs_of_each_user(self, drawn):
        labels, scores, weights, users = drawn
        areas, impressions = [], []
        for user in np.unique(users):
            own = users == user
            area = pair_auc(labels[own], scores[own], weights[own])
            if area is not None:
                areas.append(area)
                impressions.append(weights[own].sum())
        result = metrics.gauc(labels, scores, users, weights)
        assert result.users == len(areas)
        if areas:
            assert result.by_users == pytest.approx(np.mean(areas), abs=1e-12)
            expected = np.average(areas, weights=impressions)
            assert result.by_impressions == pytest.approx(expected, abs=1e-12)
        else:
            assert result.by_impressions is None


class TestLogLoss:
    def test_certain_and_wrong_is_finite(self):
        # EVA-07
        assert metrics.EPSILON == 1e-7
        assert metrics.log_loss([1], [0.0]) == pytest.approx(16.118096, abs=1e-6)
        assert metrics.log_loss([0], [1.0]) == pytest.approx(16.118096, abs=1e-6)

    def test_certain_and_right_costs_nothing(self):
        assert metrics.log_loss([1, 0], [1.0, 0.0]) == 0.0

    def test_agrees_with_scikit_learn(self, clicks):
        labels, scores, weights, _ = clicks
        inside = np.clip(scores, 0.001, 0.999)
        assert metrics.log_loss(labels, inside, weights) == pytest.approx(
            sklearn_metrics.log_loss(labels, inside, sample_weight=weights), abs=1e-12
        )

    def test_no_rows(self):
        assert metrics.log_loss([], []) is None


class TestNormalisedEntropy:
    @pytest.mark.parametrize(("score", "expected"), [(0.25, 1.0), (0.5, 1.232623)])
    def test_constant_scores(self, score, expected):
        assert metrics.normalised_entropy([1, 0, 0, 0], [score] * 4) == pytest.approx(
            expected, abs=1e-6
        )

    def test_weights_set_the_base_rate(self):
        assert metrics.normalised_entropy([1, 0], [0.25, 0.25], [1, 3]) == pytest.approx(1.0)

    @pytest.mark.parametrize("labels", [[1, 0], [0, 1]])
    def test_a_base_rate_next_to_one_is_no_division_by_zero(self, labels):
        # -q ln q - (1 - q) ln(1 - q) is q (1 - ln q) for a tiny q, here 1e-20
        entropy = 1e-20 * (1 + 20 * math.log(10))
        found = metrics.normalised_entropy(labels, [0.5, 0.5], [1e20, 1])
        assert found == pytest.approx(math.log(2) / entropy)

    @pytest.mark.parametrize("label", [0, 1])
    def test_one_label_is_undefined_with_uneven_weights(self, label):
        # The weighted mean of equal labels may round off 0 or 1; the labels decide
        weights = np.random.default_rng(3).random(999) + 0.1
        assert metrics.normalised_entropy([label] * 999, [0.5] * 999, weights) is None


class TestCalibration:
    LABELS = (0, 0, 1, 0)
    SCORES = (0.1, 0.2, 0.3, 0.4)

    def test_ratio(self):
        assert metrics.calibration_ratio(self.LABELS, self.SCORES) == pytest.approx(1.0)
        assert metrics.calibration_ratio([1, 0], [0.5, 0.5], [1, 3]) == pytest.approx(2.0)

    def test_ratio_without_click_is_undefined(self):
        assert metrics.calibration_ratio([0, 0], [0.1, 0.2]) is None
        assert metrics.calibration_ratio([0, 1], [0.1, 0.2], [1, 0]) is None

    def test_two_bins_by_hand(self):
        # EVA-07
        first, second = metrics.calibration_bins(self.LABELS, self.SCORES, bins=2)
        assert (first.rows, first.lower, first.upper, first.observed_rate) == (2, 0.1, 0.2, 0.0)
        assert (second.rows, second.lower, second.upper, second.observed_rate) == (2, 0.3, 0.4, 0.5)
        assert first.mean_score == pytest.approx(0.15)
        assert second.mean_score == pytest.approx(0.35)
        assert metrics.expected_calibration_error([first, second]) == pytest.approx(0.15)

    def test_wilson_interval_by_hand(self):
        (part,) = metrics.calibration_bins([1] + [0] * 9, [0.1] * 10)
        # p = 0.1, n = 10, z² = 3.841459: centre (0.1 + z²/20) / (1 + z²/10) = 0.211015,
        # half-width sqrt(z² · 0.09 / 10 + z⁴ / 400) / (1 + z²/10) = 0.193135
        assert part.rate_lower == pytest.approx(0.017876, abs=1e-5)
        assert part.rate_upper == pytest.approx(0.404150, abs=1e-5)

    def test_weights_narrow_the_interval_by_the_effective_rows(self):
        even = metrics.calibration_bins([1, 0], [0.5, 0.5], [1, 1])[0]
        scaled = metrics.calibration_bins([1, 0], [0.5, 0.5], [50, 50])[0]
        assert scaled.rate_lower == pytest.approx(even.rate_lower)
        assert scaled.weight == 100

    def test_rows_split_evenly_without_ties(self):
        rng = np.random.default_rng(5)
        parts = metrics.calibration_bins(rng.integers(0, 2, 1003), rng.random(1003), bins=20)
        assert len(parts) == 20
        assert {part.rows for part in parts} == {50, 51}

    def test_ties_stay_together(self):
        parts = metrics.calibration_bins([0, 1] * 50, [0.1] * 97 + [0.2, 0.3, 0.4], bins=20)
        assert [part.rows for part in parts] == [97, 3]
        assert [(part.lower, part.upper) for part in parts] == [(0.1, 0.1), (0.2, 0.4)]

    @given(rows(), st.integers(1, 8))
    def test_bins_cover_all_rows_in_order(self, drawn, bins):
        labels, scores, weights, _ = drawn
        parts = metrics.calibration_bins(labels, scores, weights, bins)
        assert len(parts) <= bins
        assert sum(part.rows for part in parts) == np.count_nonzero(weights)
        assert all(a.upper < b.lower for a, b in itertools.pairwise(parts))
        # 1e-12: the weighted mean of one score may round past it
        assert all(p.lower - 1e-12 <= p.mean_score <= p.upper + 1e-12 for p in parts)
        assert all(0 <= p.rate_lower <= p.observed_rate <= p.rate_upper <= 1 for p in parts)

    def test_impossible_number_of_bins(self):
        with pytest.raises(ValueError, match="bins is 0; expected at least 1"):
            metrics.calibration_bins([0], [0.5], bins=0)


class TestRocCurve:
    def test_points_by_hand(self):
        fpr, tpr = metrics.roc_curve([0, 1, 0, 1], [0.1, 0.4, 0.4, 0.8])
        assert fpr.tolist() == [0, 0, 0.5, 1]
        assert tpr.tolist() == [0, 0.5, 1, 1]

    def test_area_is_the_auc(self, clicks):
        labels, scores, weights, _ = clicks
        fpr, tpr = metrics.roc_curve(labels, scores, weights, max_points=10_000)
        assert np.trapezoid(tpr, fpr) == pytest.approx(metrics.auc(labels, scores, weights))

    def test_thinning_keeps_the_ends_and_stays_on_the_curve(self):
        rng = np.random.default_rng(2)
        scores = rng.random(5000)
        labels = rng.random(5000) < scores
        whole = set(zip(*metrics.roc_curve(labels, scores, max_points=100_000), strict=True))
        thinned = list(zip(*metrics.roc_curve(labels, scores, max_points=50), strict=True))
        assert len(thinned) <= 50
        assert (thinned[0], thinned[-1]) == ((0, 0), (1, 1))
        assert set(thinned) <= whole

    def test_one_label_has_no_curve(self):
        assert metrics.roc_curve([1, 1], [0.1, 0.2]) is None

    def test_a_curve_needs_two_points(self):
        with pytest.raises(ValueError, match="max_points is 1; expected at least 2"):
            metrics.roc_curve([0, 1], [0.1, 0.2], max_points=1)


class TestEvaluate:
    def test_agrees_with_the_single_functions(self, clicks):
        labels, scores, weights, users = clicks
        result = metrics.evaluate(labels, scores, weights, users, bins=5)
        grouped = metrics.gauc(labels, scores, users, weights)
        assert result["auc"] == metrics.auc(labels, scores, weights)
        assert result["gauc"] == grouped.by_impressions == result["gauc_by"]["impressions"]
        assert result["gauc_by"]["clicks"] == grouped.by_clicks
        assert result["gauc_by"]["excluded_rows"] == grouped.excluded_rows
        assert result["ne"] == metrics.normalised_entropy(labels, scores, weights)
        assert len(result["calibration_bins"]) == 5
        assert (result["rows"], result["positives"]) == (2000, labels.sum())
        assert result["undefined"] == {}
        assert json.loads(json.dumps(result, allow_nan=False)) == result

    @pytest.mark.parametrize(
        ("labels", "reasons"),
        [
            ([], dict.fromkeys(("auc", "gauc", "log_loss", "ne", "calibration", "ece"), "0 rows")),
            (
                [1],
                {
                    "auc": "1 row, all of label 1; ranking needs both labels",
                    "gauc": "no group ids were given for 1 row",
                    "ne": "1 row, all of label 1; the entropy of the base rate is 0",
                },
            ),
            (
                [0] * 10,
                {
                    "auc": "10 rows, all of label 0; ranking needs both labels",
                    "gauc": "no group ids were given for 10 rows",
                    "ne": "10 rows, all of label 0; the entropy of the base rate is 0",
                    "calibration": "no click in 10 rows",
                },
            ),
        ],
    )
    def test_undefined_metrics_come_with_their_reason(self, labels, reasons):
        # EVA-02
        result = metrics.evaluate(labels, [0.25] * len(labels))
        assert result["undefined"] == reasons
        assert {name for name, value in result.items() if value is None} == set(reasons)
        assert result["roc"] == {"fpr": [], "tpr": []}
        json.dumps(result, allow_nan=False)

    def test_one_label_still_has_log_loss_and_calibration(self):
        result = metrics.evaluate([1], [0.25])
        assert result["log_loss"] == pytest.approx(-math.log(0.25))
        assert result["calibration"] == 0.25

    def test_users_of_one_label_are_the_reason(self):
        result = metrics.evaluate([0, 1, 0], [0.1, 0.2, 0.3], groups=["a", "b", "c"])
        assert result["auc"] == 0.5
        assert result["undefined"] == {"gauc": "3 rows of 3 users, none of whom has both labels"}

    def test_zero_weight_rows_are_not_counted(self):
        result = metrics.evaluate([0, 1, 1], [0.1, 0.2, 0.3], [1, 1, 0])
        assert (result["rows"], result["positives"]) == (2, 1)


class TestBadColumns:
    @pytest.mark.parametrize(
        ("labels", "scores", "weights", "message"),
        [
            ([0, 1, 2], [0.1] * 3, None, r"labels\[2\] is 2; expected 0 or 1"),
            ([0, math.nan], [0.1] * 2, None, r"labels\[1\] is nan; expected 0 or 1"),
            ([0, 1], [0.1, math.nan], None, r"scores\[1\] is nan; expected a probability"),
            ([0, 1], [1.5, -0.5], None, r"scores\[0\] is 1.5; expected a probability"),
            ([0, 1], [0.1, 0.2], [1, -1], r"weights\[1\] is -1; expected a finite number from 0"),
            ([0, 1], [0.1, 0.2], [math.inf, 1], r"weights\[0\] is inf"),
            ([0, 1], [0.1], None, r"labels have shape \(2,\) and scores \(1,\)"),
            ([0, 1], [0.1, 0.2], [1], r"labels have shape \(2,\) and weights \(1,\)"),
            ([[0], [1]], [[0.1], [0.2]], None, r"labels have shape \(2, 1\)"),
        ],
    )
    def test_says_which_and_where(self, labels, scores, weights, message):
        with pytest.raises(ValueError, match=message):
            metrics.evaluate(labels, scores, weights)

    def test_groups_of_another_length(self):
        with pytest.raises(ValueError, match=r"labels have shape \(2,\) and groups \(1,\)"):
            metrics.gauc([0, 1], [0.1, 0.2], ["a"])

    def test_rows_of_weight_zero_may_hold_anything(self):
        assert metrics.auc([0, 1, -1], [0.1, 0.2, math.nan], [1, 1, 0]) == 1.0
