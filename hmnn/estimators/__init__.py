"""The scikit-learn door; `hmnn.estimators.river` is river's, imported only by who asks for it."""

from hmnn.estimators.classifier import HMNNClassifier
from hmnn.estimators.regressor import HMNNRegressor

__all__ = ["HMNNClassifier", "HMNNRegressor"]
