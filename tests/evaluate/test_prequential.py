"""Predict, then learn: no model sees a label before it has spoken, and all doors give the same
numbers."""

import math
import time

import numpy as np
import pytest
from river import dummy, linear_model, naive_bayes, preprocessing
from river import metrics as river_metrics
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Perceptron, SGDClassifier, SGDRegressor

from hmnn import evaluate, metrics
from hmnn.data.generators import sea, trump
from hmnn.data.tables import blocks
from hmnn.evaluate import peers
from hmnn.evaluate.loop import Classified
from hmnn.evaluate.reports import Settings, score

SETTINGS = Settings(rows=1, window=50, fading=0.99, level=0.95, lag_window=20, lag_tolerance=0.05)


class Counter:
    """Says how often each label came, with one count for each beforehand; scikit-learn's door and
    the fused one."""

    def __init__(self, classes):
        self.counts = np.ones(classes)

    def predict_proba(self, x):
        return np.tile(self.counts / self.counts.sum(), (len(x), 1))

    def partial_fit(self, x, y):
        self.counts += np.bincount(y, minlength=len(self.counts))
        return self

    def predict_then_fit(self, x, y):
        before = np.vstack(
            [np.zeros(len(self.counts)), np.cumsum(np.eye(len(self.counts))[y], axis=0)]
        )
        counts = self.counts + before[:-1]
        self.counts = self.counts + before[-1]
        return counts / counts.sum(axis=1, keepdims=True)


class Oracle(Counter):
    """A negative control: its own loop looks at the label first."""

    def predict_then_fit(self, x, y):
        return np.eye(len(self.counts))[y]


class Average:
    """The mean and spread of all targets so far; scikit-learn's door and the fused one."""

    def __init__(self):
        self.n, self.sum, self.squares = 1, 0.0, 1.0

    def _law(self):
        mean = self.sum / self.n
        return mean, math.sqrt(self.squares / self.n - mean**2 + 1e-9)

    def predict(self, x, return_std=False):
        mean, std = self._law()
        return (
            (np.full(len(x), mean), np.full(len(x), std)) if return_std else np.full(len(x), mean)
        )

    def partial_fit(self, x, y):
        for value in y:
            self.n, self.sum, self.squares = self.n + 1, self.sum + value, self.squares + value**2
        return self

    def predict_then_fit(self, x, y):
        laws = []
        for value in y:
            laws.append(self._law())
            self.partial_fit(None, [value])
        return tuple(np.array(part) for part in zip(*laws, strict=True))


class River:
    """The same counts behind river's door."""

    def __init__(self):
        self.counts = {}

    def predict_proba_one(self, x):
        return {k: n / sum(self.counts.values()) for k, n in self.counts.items()}

    def learn_one(self, x, y):
        self.counts[y] = self.counts.get(y, 0) + 1


def labels(rows=230, classes=3, block=100, seed=0):
    rng = np.random.default_rng(seed)
    return blocks(
        rng.normal(size=(rows, 2)), rng.integers(0, classes, rows), "classification", block=block
    )


def numbers(rows=230, block=100):
    rng = np.random.default_rng(1)
    return blocks(rng.normal(size=(rows, 2)), rng.normal(size=rows), "regression", block=block)


def test_fused_is_one_by_one():
    fused, single = (
        evaluate.prequential(Counter(3), labels(), through=way) for way in ("fused", "single")
    )
    np.testing.assert_allclose(fused.probabilities, single.probabilities, rtol=1e-12)
    fused, single = (
        evaluate.prequential(Average(), numbers(), through=way) for way in ("fused", "single")
    )
    np.testing.assert_allclose(fused.mean, single.mean, rtol=1e-12)
    np.testing.assert_allclose(fused.std, single.std, rtol=1e-12)


def test_a_fused_model_that_looks_ahead_is_not_one_by_one():
    fused, single = (
        evaluate.prequential(Oracle(3), labels(), through=way) for way in ("fused", "single")
    )
    assert metrics.accuracy(fused.probabilities, fused.y) == 1
    assert metrics.accuracy(single.probabilities, single.y) < 0.5


def test_the_prediction_of_a_row_is_that_of_the_rows_before_it():
    stream = labels(40, block=7)
    y = np.concatenate([part.y for part in stream])
    done = evaluate.prequential(Counter(3), stream)
    np.testing.assert_array_equal(done.y, y)
    for i in range(40):
        counts = 1 + np.bincount(y[:i], minlength=3)
        np.testing.assert_allclose(done.probabilities[i], counts / counts.sum())


def test_groups_of_rows_are_predicted_before_any_of_them_is_learned():
    y = np.concatenate([part.y for part in labels(40)])
    done = evaluate.prequential(Counter(3), labels(40), rows=8)
    for i in range(40):
        counts = 1 + np.bincount(y[: i - i % 8], minlength=3)
        np.testing.assert_allclose(done.probabilities[i], counts / counts.sum())


def test_the_size_of_blocks_does_not_matter():
    one, other = (
        evaluate.prequential(River(), labels(block=block)).probabilities for block in (1, 64)
    )
    np.testing.assert_array_equal(one, other)


def test_rivers_own_loop_gives_the_same_numbers():
    from river import evaluate as river_evaluate

    stream = sea(600, seed=1)
    rows = [
        (dict(enumerate(x.tolist())), bool(y))
        for part in stream
        for x, y in zip(*part, strict=True)
    ]
    found = {}
    for name, metric in (
        ("accuracy", river_metrics.Accuracy()),
        ("log_loss", river_metrics.LogLoss()),
    ):
        model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        found[name] = river_evaluate.progressive_val_score(rows, model, metric).get()
    ours = evaluate.compare(
        {"logistic": peers.build("logistic", "classification")}, stream
    ).metrics["logistic"]
    # river takes False for a tie and counts the first row, of probability one half, as we do
    assert ours["log_loss"] == pytest.approx(found["log_loss"], rel=1e-9)
    assert ours["accuracy"] == pytest.approx(found["accuracy"], abs=1 / 600)


def test_scikit_learn_models_learn_and_start_from_nothing():
    stream = sea(400, seed=2)
    done = evaluate.prequential(SGDClassifier(loss="log_loss", random_state=0), stream)
    np.testing.assert_array_equal(done.probabilities[0], [0.5, 0.5])
    assert metrics.accuracy(done.probabilities[200:], done.y[200:]) > 0.6
    hard = evaluate.prequential(Perceptron(), stream)
    assert hard.hard
    assert set(np.unique(hard.probabilities[1:])) == {0, 1}


def test_a_hard_model_has_an_accuracy_and_no_probability_scores():
    report = evaluate.compare(
        {"last": peers.LastLabel(), "none": dummy.NoChangeClassifier()}, labels()
    )
    y = np.concatenate([part.y for part in labels()])
    for found in report.metrics.values():
        assert found["accuracy"] == pytest.approx(
            np.mean(y == np.concatenate([[0], y[:-1]])), abs=1 / 230
        )
    assert math.isnan(report.metrics["last"]["log_loss"])
    assert math.isnan(report.metrics["last"]["ece"])


def test_a_label_that_a_model_has_not_seen_costs_the_clipped_loss():
    y = np.array([0, 0, 1, 1, 2])
    stream = blocks(np.zeros((5, 1)), y, "classification")
    done = evaluate.prequential(River(), stream)
    np.testing.assert_allclose(done.probabilities[:3], [[1 / 3] * 3, [1, 0, 0], [1, 0, 0]])
    found = score(done, SETTINGS, [])[0]
    losses = [math.log(3), 0, 34.538776, -math.log(1 / 3), 34.538776]
    assert found["log_loss"] == pytest.approx(np.mean(losses), rel=1e-6)


def test_probabilities_that_do_not_sum_to_one_are_divided_by_their_sum_and_counted():
    class Double(Counter):
        def predict_then_fit(self, x, y):
            found = 2 * super().predict_then_fit(x, y)
            found[0] = 0
            return found

    mended = evaluate.prequential(Double(3), labels(block=230))
    sound = evaluate.prequential(Counter(3), labels(block=230))
    assert (mended.mended, sound.mended) == (230, 0)
    np.testing.assert_allclose(mended.probabilities[1:], sound.probabilities[1:])
    np.testing.assert_allclose(mended.probabilities[0], 1 / 3)


@pytest.mark.parametrize("wrong", [np.nan, -0.1, np.inf])
def test_what_is_no_probability_is_an_error_that_names_the_row(wrong):
    class Wrong(Counter):
        def predict_then_fit(self, x, y):
            found = super().predict_then_fit(x, y)
            found[3, 1] = wrong
            return found

    with pytest.raises(
        evaluate.ModelError, match=r"^odd must predict probabilities that are finite .* at row 3\.$"
    ):
        evaluate.prequential(Wrong(3), labels(), name="odd")


def test_a_model_that_raises_is_named_with_its_row_and_does_not_stop_the_others():
    class Tired(Counter):
        def predict_then_fit(self, x, y):
            if self.counts.sum() > 150:
                raise RuntimeError("no more\nplease")
            return super().predict_then_fit(x, y)

    report = evaluate.compare({"tired": Tired(3), "counter": Counter(3)}, labels())
    assert report.failed == {"tired": "tired failed at row 200, predicting and learning: no more"}
    assert list(report.metrics) == ["counter"]
    assert [row["model"] for row in report.table()] == ["counter"]


def test_a_tolerance_is_checked_before_anything_runs():
    with pytest.raises(ValueError, match=r"^lag_tolerance must be at least 0\. Got -1\.0\.$"):
        evaluate.compare({}, labels(), lag_tolerance=-1.0)


def test_what_is_no_model_and_no_labels_is_refused():
    with pytest.raises(
        ValueError, match=r"model must be a model with partial_fit and predict, .* Got 'dict'."
    ):
        evaluate.prequential({}, labels())
    with pytest.raises(ValueError, match="labels must be whole numbers from 0 on, one a row"):
        evaluate.prequential(
            Counter(2), blocks(np.ones((3, 1)), np.array([0.5, 1, 1]), "classification")
        )
    stream = blocks(np.ones((3, 1)), np.array([0, 1, 2]), "classification", classes=["a", "b"])
    with pytest.raises(ValueError, match=r"labels must be whole numbers from 0 to 1. Got 2."):
        evaluate.prequential(Counter(2), stream)


def test_classes_by_name_go_to_their_columns():
    class Partial:
        classes_ = np.array([0, 2])

        def partial_fit(self, x, y):
            return self

        def predict_proba(self, x):
            return np.tile([0.25, 0.75], (len(x), 1))

    done = evaluate.prequential(Partial(), labels(5))
    np.testing.assert_array_equal(done.probabilities, np.tile([0.25, 0, 0.75], (5, 1)))


def test_seconds_are_the_models_and_not_ours():
    class Slow(Counter):
        def predict_then_fit(self, x, y):
            time.sleep(0.05)
            return super().predict_then_fit(x, y)

    slow, fast = (evaluate.prequential(model(3), labels()) for model in (Slow, Counter))
    assert 0.15 <= slow.seconds < 0.15 + 10
    assert slow.seconds - fast.seconds > 0.1
    assert slow.cpu_seconds < 0.1  # asleep, it needs no processor


def test_regressors_with_and_without_spread():
    stream = numbers()
    report = evaluate.compare(
        {"average": Average(), "line": SGDRegressor(), "last": peers.LastLabel()}, stream
    )
    average, line = report.metrics["average"], report.metrics["line"]
    assert average["coverage"] == pytest.approx(0.95, abs=0.04)
    assert average["width"] == pytest.approx(2 * 1.96, rel=0.2)
    assert average["crps"] < average["mae"]
    assert math.isnan(line["coverage"])
    assert line["crps"] == line["mae"]
    done = evaluate.prequential(Average(), stream)
    assert average["crps"] == pytest.approx(
        metrics.crps_gaussian(done.mean, done.std, done.y).mean()
    )


def test_rivers_regressors_beat_zero_on_trump():
    report = evaluate.compare(
        {name: peers.build(name, "regression") for name in ("last-value", "linear")}, trump(300)
    )
    assert report.failed == {}
    assert report.metrics["linear"]["mae"] < 2
    assert report.metrics["last-value"]["mae"] < 1


def test_curves_are_windows_and_lag_is_that_of_a_known_change():
    y = np.zeros(200, int)
    p = np.tile([0.9, 0.1], (200, 1))
    p[100:130] = [0.2, 0.8]
    found, curves, calibration = score(Classified(p, y, 0.0, 0.0, 0, False), SETTINGS, [100])
    np.testing.assert_array_equal(curves["row"], [50, 100, 150, 200])
    np.testing.assert_allclose(curves["accuracy"], [1, 1, 0.4, 1])
    np.testing.assert_allclose(
        curves["accuracy_faded"], metrics.faded((p[:, 0] > 0.5).astype(float), 0.99)[49::50]
    )
    np.testing.assert_allclose(curves["ece"][0], 0.1)
    assert found["accuracy_faded"] == curves["accuracy_faded"][-1]
    assert found["lag"] == {
        "changes": [100],
        "rows": [29.0],
        "mean": 29.0,
    }  # one in twenty may be wrong
    np.testing.assert_allclose(calibration["share"], [0.15, 0.85])


def test_the_last_window_may_be_shorter():
    _, curves, _ = score(evaluate.prequential(Counter(3), labels(130)), SETTINGS, [])
    np.testing.assert_array_equal(curves["row"], [50, 100, 130])


def test_river_naive_bayes_multi_class():
    report = evaluate.compare({"bayes": naive_bayes.GaussianNB()}, labels())
    assert report.failed == {}
    assert report.metrics["bayes"]["mended"] == 0


def test_not_fitted_is_an_answer_only_in_scikit_learns_words():
    class Unready(Counter):
        progress = None

        def predict_proba(self, x):
            raise NotFittedError if self.counts.sum() == 3 else RuntimeError("later")

    with pytest.raises(
        evaluate.ModelError, match=r"^the model failed at row 1, predicting: later$"
    ):
        evaluate.prequential(Unready(3), labels(), through="single")
