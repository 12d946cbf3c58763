"""The one log-log slope."""

import numpy as np
import pytest

from featavg.errors import InputError
from featavg.paper.engine.tables import power_law_exponent


@pytest.mark.parametrize("exponent", [-2.5, -0.5, 0.0, 1.0])
def test_the_exponent_of_a_power_is_found(exponent: float) -> None:
    x = np.geomspace(1, 1e9, 7)
    assert power_law_exponent(x, 3.0 * x**exponent) == pytest.approx(exponent, abs=1e-12)
    noisy = 3.0 * x**exponent * np.exp([0.1, -0.1, 0.05, 0, -0.05, 0.1, -0.1])
    slow = np.cov(np.log(x), np.log(noisy), ddof=0)
    assert power_law_exponent(x, noisy) == pytest.approx(slow[0, 1] / slow[0, 0])


@pytest.mark.parametrize(("x", "y"), [([1.0], [2.0]), ([1.0, 2.0], [0.0, 1.0]), ([-1.0, 2.0], [1.0, 1.0])])
def test_what_has_no_logarithm_is_refused(x, y) -> None:
    with pytest.raises(InputError, match="logarithms"):
        power_law_exponent(x, y)
