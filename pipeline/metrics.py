# SPDX-License-Identifier: Apache-2.0
"""Exact offline metrics of click probabilities, in float64 and O(n log n) for n rows.

`labels` are 0 or 1, `scores` probabilities, `weights` non-negative (default 1), each of shape
(rows,). Rows of weight 0 are ignored. A `Metric` is None where the rows do not define it. Every
function raises ValueError for a bad column and names it with the first bad position.

References:
    AUC: Hanley and McNeil, The meaning and use of the area under a receiver operating
    characteristic (ROC) curve, Radiology 143, 1982.
    GAUC: Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018, section
    6.3. Differs from the paper: users of one label, whose AUC does not exist, are left out.
    Normalised entropy and calibration: He et al., Practical Lessons from Predicting Clicks on Ads
    at Facebook, ADKDD 2014, section 2, equation 1.
    Calibration error: Naeini, Cooper and Hauskrecht, Obtaining Well Calibrated Probabilities Using
    Bayesian Binning, AAAI 2015. Differs from the paper: bins of equal weight, not of equal width.
    Bins: Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 1927.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

# Floor of the logarithm's argument: a certain and wrong score costs 16.118096 nats, not infinity.
EPSILON = 1e-7
# Standard normal quantile of a two-sided 95 % interval.
_Z95 = 1.959963984540054

Weights = ArrayLike | None
Metric = float | None


@dataclass(frozen=True)
class GroupedAUC:
    """Means of the users' AUCs weighted by impressions, equally and by clicks.

    Users whose rows all carry one label have no AUC: they are left out and counted in
    `excluded_users`, their rows in `excluded_rows`, as are rows without a user id. A user with
    constant scores is ranked by chance: AUC 0.5, included. Where no user counts the means are None.
    """

    by_impressions: Metric
    by_users: Metric
    by_clicks: Metric
    users: int
    excluded_users: int
    excluded_rows: int


@dataclass(frozen=True)
class CalibrationBin:
    """Rows of neighbouring scores, from `lower` to `upper`, both included.

    `mean_score` and `observed_rate` are the weighted means of scores and labels; `rate_lower` and
    `rate_upper` the 95 % Wilson interval of the observed rate.
    """

    rows: int
    weight: float
    lower: float
    upper: float
    mean_score: float
    observed_rate: float
    rate_lower: float
    rate_upper: float


def auc(labels: ArrayLike, scores: ArrayLike, weights: Weights = None) -> Metric:
    """Probability that a clicked row scores above an unclicked one; a tie counts one half."""
    (area,) = _auc_per_group(*_checked(labels, scores, weights), 1)
    return float(area) if np.isfinite(area) else None


def gauc(labels: ArrayLike, scores: ArrayLike, groups: Any, weights: Weights = None) -> GroupedAUC:
    """AUC within each user, averaged; see `GroupedAUC` for what is left out.

    `groups` holds one id per row: strings, integers, or an Arrow array; a null is no user.
    """
    label, score, weight, code = _checked(labels, scores, weights, groups)
    named = code >= 0
    code_named, size = code[named], int(code.max(initial=-1)) + 1
    areas = _auc_per_group(label[named], score[named], weight[named], code_named, size)
    counted = np.isfinite(areas)
    rows, impressions, clicks = (
        np.bincount(code_named, part[named], size)
        for part in (np.ones_like(weight), weight, weight * label)
    )
    return GroupedAUC(
        by_impressions=_mean(areas[counted], impressions[counted]),
        by_users=_mean(areas[counted], np.ones_like(areas[counted])),
        by_clicks=_mean(areas[counted], clicks[counted]),
        users=int(counted.sum()),
        excluded_users=int(np.count_nonzero(rows[~counted])),
        excluded_rows=label.size - int(rows[counted].sum()),
    )


def log_loss(labels: ArrayLike, scores: ArrayLike, weights: Weights = None) -> Metric:
    """Mean binary cross-entropy in nats; only the logarithm's argument is held at `EPSILON`."""
    label, score, weight, _ = _checked(labels, scores, weights)
    likelihood = np.where(label == 1, score, 1 - score)
    return _mean(-np.log(np.maximum(likelihood, EPSILON)), weight)


def normalised_entropy(labels: ArrayLike, scores: ArrayLike, weights: Weights = None) -> Metric:
    """Log loss over the entropy of the base rate; None where one label makes that entropy 0."""
    label, _, weight, _ = _checked(labels, scores, weights)
    loss = log_loss(labels, scores, weights)
    if loss is None or label.min() == label.max():
        return None
    # the rarer label's: the other rate may round to 1, where a logarithm is infinite
    rate = min(weight @ label, weight @ (1 - label)) / weight.sum()
    return loss / float(-rate * np.log(rate) - (1 - rate) * np.log1p(-rate))


def calibration_ratio(labels: ArrayLike, scores: ArrayLike, weights: Weights = None) -> Metric:
    """Predicted clicks over observed clicks; None where none was observed."""
    label, score, weight, _ = _checked(labels, scores, weights)
    observed = float(weight @ label)
    return float(weight @ score) / observed if observed > 0 else None


def calibration_bins(
    labels: ArrayLike, scores: ArrayLike, weights: Weights = None, bins: int = 20
) -> list[CalibrationBin]:
    """Cut the rows, ordered by score, into at most `bins` parts of equal weight.

    Rows of equal score stay together, placed by their middle, so that ties may leave fewer bins.
    Weighted intervals rest on Kish's effective number of rows, (Σw)² / Σw² (Survey Sampling, 1965).
    """
    if bins < 1:
        raise ValueError(f"bins is {bins}; expected at least 1")
    label, score, weight, _ = _checked(labels, scores, weights)
    values, value_of_row = np.unique(score, return_inverse=True)
    mass = np.bincount(value_of_row, weight)
    middle = np.cumsum(mass) - mass / 2
    # A last value of tiny weight has its middle rounded up to the total
    slots = np.minimum(np.floor(bins * middle / mass.sum()), bins - 1)
    _, first, bin_of_value = np.unique(slots, return_index=True, return_inverse=True)
    last = np.append(first, values.size)[1:] - 1
    rows, total, squares, expected, clicks = (
        np.bincount(bin_of_value[value_of_row], part, first.size)
        for part in (np.ones_like(weight), weight, weight**2, weight * score, weight * label)
    )
    rate = clicks / total
    interval = _wilson_interval(rate, total**2 / squares)
    table = (rows, total, values[first], values[last], expected / total, rate, *interval)
    return [CalibrationBin(int(n), *rest) for n, *rest in np.stack(table, axis=1).tolist()]


def expected_calibration_error(bins: list[CalibrationBin]) -> Metric:
    """Weighted mean distance between the bins' mean score and observed rate."""
    gaps = np.array([abs(part.mean_score - part.observed_rate) for part in bins])
    return _mean(gaps, np.array([part.weight for part in bins]))


def roc_curve(
    labels: ArrayLike, scores: ArrayLike, weights: Weights = None, max_points: int = 400
) -> tuple[np.ndarray, np.ndarray] | None:
    """False and true positive rates for a plot, each of shape (points,); None for one label.

    At most `max_points` are kept, evenly along the curve, with both ends. `auc` does not use them.
    """
    if max_points < 2:
        raise ValueError(f"max_points is {max_points}; expected at least 2, the curve's ends")
    _, clicked, unclicked = _score_runs(*_checked(labels, scores, weights))
    if not clicked.any() or not unclicked.any():
        return None
    fpr, tpr = (np.concatenate(([0.0], np.cumsum(part[::-1]))) for part in (unclicked, clicked))
    fpr, tpr = fpr / fpr[-1], tpr / tpr[-1]
    kept = np.unique(np.searchsorted(fpr + tpr, np.linspace(0, 2, max_points)))
    return fpr[kept], tpr[kept]


def evaluate(
    labels: ArrayLike,
    scores: ArrayLike,
    weights: Weights = None,
    groups: Any = None,
    bins: int = 20,
) -> dict[str, Any]:
    """All metrics as a dictionary that JSON can hold; "gauc" is the mean by impressions.

    An undefined metric is None, with its reason under "undefined". "rows" and "positives" count
    rows of positive weight. Without `groups` no row has a user.
    """
    label = _checked(labels, scores, weights)[0]
    users = gauc(labels, scores, pa.nulls(np.size(labels)) if groups is None else groups, weights)
    parts = calibration_bins(labels, scores, weights, bins)
    fpr, tpr = roc_curve(labels, scores, weights) or (np.empty(0), np.empty(0))
    metrics = {
        "auc": auc(labels, scores, weights),
        "gauc": users.by_impressions,
        "log_loss": log_loss(labels, scores, weights),
        "ne": normalised_entropy(labels, scores, weights),
        "calibration": calibration_ratio(labels, scores, weights),
        "ece": expected_calibration_error(parts),
    }
    reasons = _reasons(label, users, groups is not None)
    return {
        "rows": label.size,
        "positives": int(label.sum()),
        **metrics,
        "gauc_by": {
            "impressions": users.by_impressions,
            "users": users.by_users,
            "clicks": users.by_clicks,
            "users_counted": users.users,
            "excluded_users": users.excluded_users,
            "excluded_rows": users.excluded_rows,
        },
        "calibration_bins": [asdict(part) for part in parts],
        "roc": {"fpr": fpr.tolist(), "tpr": tpr.tolist()},
        "undefined": {name: reasons[name] for name, value in metrics.items() if value is None},
    }


def _reasons(label: np.ndarray, users: GroupedAUC, grouped: bool) -> dict[str, str]:
    """Why each metric would be undefined on these rows."""
    rows = f"{label.size:,} row{'s' * (label.size != 1)}"
    if label.size == 0:
        return dict.fromkeys(("auc", "gauc", "log_loss", "ne", "calibration", "ece"), rows)
    one_label = f"{rows}, all of label {label[0]:g}"
    no_user = f"{rows} of {users.excluded_users:,} users, none of whom has both labels"
    return {
        "auc": f"{one_label}; ranking needs both labels",
        "gauc": no_user if grouped else f"no group ids were given for {rows}",
        "ne": f"{one_label}; the entropy of the base rate is 0",
        "calibration": f"no click in {rows}",
    }


def _auc_per_group(
    label: np.ndarray, score: np.ndarray, weight: np.ndarray, code: np.ndarray, size: int
) -> np.ndarray:
    """AUC of the groups 0 to size - 1, shape (size,); NaN where a label is missing."""
    group, clicked, unclicked = _score_runs(label, score, weight, code)
    # Unclicked weight below each run, counted from the first run of its group
    below = np.cumsum(unclicked) - unclicked
    below -= below[np.searchsorted(group, group)]
    won = np.bincount(group, clicked * (below + unclicked / 2), size)
    pairs = np.bincount(group, clicked, size) * np.bincount(group, unclicked, size)
    return np.divide(won, pairs, out=np.full(size, np.nan), where=pairs > 0)


def _score_runs(
    label: np.ndarray, score: np.ndarray, weight: np.ndarray, code: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group code, clicked and unclicked weight of each run of equal scores, ascending by both."""
    order = np.lexsort((score, code))
    label, score, weight, code = label[order], score[order], weight[order], code[order]
    starts = np.flatnonzero((np.diff(code, prepend=-1) != 0) | (np.diff(score, prepend=-1) != 0))
    clicked, unclicked = (
        np.add.reduceat(part, starts) for part in (weight * label, weight * (1 - label))
    )
    return code[starts], clicked, unclicked


def _wilson_interval(rate: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """95 % interval of a rate observed on that many rows (Wilson 1927), each of shape (bins,)."""
    spread = _Z95**2 / rows
    centre = (rate + spread / 2) / (1 + spread)
    half = np.sqrt(spread * (rate * (1 - rate) + spread / 4)) / (1 + spread)
    return np.clip(centre - half, 0, rate), np.clip(centre + half, rate, 1)


def _mean(values: np.ndarray, weights: np.ndarray) -> Metric:
    return float(values @ weights / weights.sum()) if values.size else None


def _checked(
    labels: ArrayLike, scores: ArrayLike, weights: Weights, groups: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Labels, scores, weights (float64) and group codes (int64) of the rows of positive weight."""
    label, score = np.asarray(labels, np.float64), np.asarray(scores, np.float64)
    weight = np.ones(label.shape) if weights is None else np.asarray(weights, np.float64)
    code = np.zeros(label.shape, np.int64) if groups is None else _group_codes(groups)
    for name, column in {"scores": score, "weights": weight, "groups": code}.items():
        if label.ndim != 1 or column.shape != label.shape:
            shapes = f"labels have shape {label.shape} and {name} {column.shape}"
            raise ValueError(f"{shapes}; expected the same (rows,)")
    _refuse("weights", weight, ~(np.isfinite(weight) & (weight >= 0)), "a finite number from 0")
    used = weight > 0
    _refuse("labels", label, used & (label != 0) & (label != 1), "0 or 1")
    _refuse("scores", score, used & ~((score >= 0) & (score <= 1)), "a probability from 0 to 1")
    return label[used], score[used], weight[used], code[used]


def _refuse(name: str, column: np.ndarray, bad: np.ndarray, expected: str) -> None:
    if bad.any():
        raise ValueError(f"{name}[{bad.argmax()}] is {column[bad][0]:g}; expected {expected}")


def _group_codes(groups: Any) -> np.ndarray:
    """Number the distinct ids from 0, shape (rows,); -1 for null."""
    codes = pa.array(groups).dictionary_encode().indices.cast(pa.int64())
    return codes.fill_null(-1).to_numpy(zero_copy_only=False)
