"""Lemmas 1 and 2: the weights as a sum of features and noise, and the coefficients of both."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg import solve_triangular

from featavg.boundary.public import public
from featavg.data.compress import TrainingSet
from featavg.shapes import PerSeed
from featavg.training.objectives.objective import Evaluation, Params, TwoLayerEvaluation
from featavg.training.state import StepView


class Coefficients:
    r"""Records lambda and sigma during plain gradient descent.

        w_r(t) = w_r(0) + sum_j lambda_{r,j}(t) mu_j/|mu_j|^2 + sum_i sigma_{r,i}(t) xi_i/|xi_i|^2

    With g_{i,r} = dL/dz_r on sample i, putting x_i = alpha mu_{c(i)} + sigma xi_i into a step of
    gradient descent gives

        lambda_{r,j} -= rate * alpha |mu_j|^2 sum_{i in I_j} g_{i,r},
        sigma_{r,i}  -= rate * sigma |xi_i|^2 g_{i,r}:

    products with the squared norms, where the lecture notes print quotients. After each step the
    weights are rebuilt from the coefficients and compared with the real ones.

    Args:
        data: the training set of the run.
        rebuild: whether to compare after each step; it costs as much as the step itself.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> watch = Coefficients(fa.draw(task, n=40, neurons=10, seed=0))
    >>> run = fa.train(task, n=40, seed=0, steps=20, recorders=[watch])
    >>> watch.feature.shape, bool(watch.errors.max() < 1e-12)
    ((10, 4), True)
    """

    def __init__(self, data: TrainingSet, rebuild: bool = True) -> None:
        self.data, self.rebuild = data, rebuild
        self._noise = data.noise
        self._noise_squares = (self._noise**2).sum(axis=-1)
        features = data.features
        self._feature_squares = (features**2).sum(axis=-1)
        self._members = np.swapaxes(np.eye(data.task.k)[data.clusters], -1, -2)

    def start(self, params: Params, evaluation: Evaluation) -> None:
        """All coefficients are zero before the first step."""
        self._initial = params[0]
        batch, k = params[0].shape[:-1], self.data.task.k
        self.sigma: Float[ndarray, "*s M n"] = np.zeros((*batch, self.data.x.shape[-2]))
        self._lambdas: list[ndarray] = [np.zeros((*batch, k))]
        self._errors: list[ndarray] = []

    def see(self, view: StepView) -> None:
        """One step of the recursion."""
        if not isinstance(view.before, TwoLayerEvaluation):
            raise TypeError("coefficients are those of a two-layer network")
        slopes = view.factor[..., None, None] * view.before.neuron_slopes
        task = self.data.task
        inside = np.swapaxes(self._members @ slopes, -1, -2)
        self._lambdas.append(self._lambdas[-1] - task.alpha * self._feature_squares * inside)
        # sigma |xi|^2 = |sigma xi|^2 / sigma; without noise there is nothing to follow.
        if task.sigma > 0:
            squares = self._noise_squares[..., None, :] / task.sigma
            self.sigma = self.sigma - squares * np.swapaxes(slopes, -1, -2)
        if self.rebuild:
            self._errors.append(self._error(view.params[0]))

    @property
    def history(self) -> Float[ndarray, "t *s M k"]:
        """lambda before the first step and after each."""
        return np.stack(self._lambdas)

    @property
    def feature(self) -> Float[ndarray, "*s M k"]:
        """lambda after the last step."""
        return self._lambdas[-1]

    @property
    def errors(self) -> Float[ndarray, "t *s"]:
        """|rebuilt - w| / |w| after each step, the worst neuron of each network."""
        return np.stack(self._errors)

    def rebuilt(self) -> Float[ndarray, "*s M N"]:
        """The weights computed from the coefficients."""
        weights = self._initial + (self.feature / self._feature_squares) @ self.data.features
        if self.data.task.sigma > 0:
            scale = self.data.task.sigma / self._noise_squares[..., None, :]
            weights = weights + (self.sigma * scale) @ self._noise
        return weights

    def _error(self, weights: Float[ndarray, "*s M N"]) -> PerSeed:
        off = np.linalg.norm(self.rebuilt() - weights, axis=-1)
        return np.asarray((off / np.linalg.norm(weights, axis=-1)).max(axis=-1))

    def arrays(self) -> dict[str, ndarray]:
        """For a checkpoint."""
        return {
            "initial": self._initial,
            "sigma": self.sigma,
            "lambda": self.history,
            "errors": np.asarray(self._errors),
        }

    def restore(self, arrays: dict[str, ndarray]) -> None:
        """From a checkpoint."""
        self._initial, self.sigma = arrays["initial"], arrays["sigma"]
        self._lambdas, self._errors = list(arrays["lambda"]), list(arrays["errors"])


@public
def projected_coefficients(
    weights: Float[ndarray, "*t M N"], initial: Float[ndarray, "M N"], data: TrainingSet
) -> tuple[Float[ndarray, "*t M k"], Float[ndarray, "*t M n"]]:
    """Solves the decomposition for lambda and sigma, for any weights in the span.

    They are unique whenever features and noise are linearly independent. Compressed noise is lower
    triangular behind the k features and M weights, so its coefficients are one triangular solve, and
    what they leave in the first k coordinates is the features' part; in R^d it is least squares.
    Several moments of one run, stacked, cost little more than one.

    Args:
        weights: of the network, at any time.
        initial: the weights that training began with.
        data: what it was trained on.

    >>> import numpy as np
    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> data = fa.draw(task, n=40, neurons=10, seed=0)
    >>> start = np.zeros((10, data.x.shape[-1]))
    >>> lam, sigma = projected_coefficients(start + data.features[0], start, data)
    >>> lam.shape, sigma.shape
    ((10, 4), (10, 40))
    """
    squares = (data.features**2).sum(axis=-1)
    noise = data.noise
    noise /= data.task.sigma
    noise_squares = (noise**2).sum(axis=-1)
    size = weights.shape[:-1]
    moved = (weights - initial).reshape(-1, weights.shape[-1])
    if data.coordinates == "compressed":
        before = data.dimension - len(noise)
        tail = solve_triangular(noise[:, before:], moved[:, before:].T, lower=True, trans="T")
        rest = moved[:, : data.task.k] - tail.T @ noise[:, : data.task.k]
        lambdas = np.linalg.solve(data.task.features.T, rest.T).T
        sigmas = tail.T
    else:
        directions = np.concatenate([data.features, noise])
        solution = np.linalg.lstsq(directions.T, moved.T, rcond=None)[0].T
        lambdas, sigmas = solution[:, : data.task.k], solution[:, data.task.k :]
    return (
        (lambdas * squares).reshape(*size, data.task.k),
        (sigmas * noise_squares).reshape(*size, len(noise)),
    )
