"""What the models of both doors say of the world: whether it changed, and how fast it moves."""

from numpy import ndarray
from sklearn.utils.validation import check_is_fitted

from hmnn.estimators.learned import Learned, drift
from hmnn.estimators.speeds import Forgetting, forgetting
from hmnn.methods.streams import StreamFilter


class Signals:
    """The common part of all estimators that is read, and never learns."""

    state_: Learned

    @property
    def drift_(self) -> ndarray:
        """How sure it is, at each of the last 10000 time steps, that the world has just changed.

        From 0.5 on it is an alarm. A stream that stands still gives one false alarm in 20000 time
        steps at most; docs/howto/drift.md says how it is made.
        """
        return drift(self._known("drift_").surprise)

    @property
    def forgetting_(self) -> Forgetting:
        """Which members of the bank are believed: how fast the world is thought to move."""
        learned = self._known("forgetting_")
        return forgetting(self._filter(), learned)

    @property
    def surprise_(self) -> ndarray:
        """The mean log density of y, in its own units, before its rows were learned.

        One for each of the last 10000 time steps.
        """
        return self._known("surprise_").surprise.copy()

    def _known(self, name: str) -> Learned:
        """All that was learned; an error, if that is nothing, may say which signal was asked."""
        check_is_fitted(self, "state_")
        return self.state_

    def _filter(self) -> StreamFilter:
        raise NotImplementedError
