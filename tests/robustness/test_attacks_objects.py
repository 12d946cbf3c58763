"""Attacks are objects: one of a user's own, one added by a file, and names that tests can show."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import featavg as fa
from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer, binary
from featavg.robustness.attacks import suite
from featavg.robustness.attacks.attack import Attack, AttackEnd, AttackProblem
from featavg.robustness.attacks.ddn import DDN
from featavg.robustness.attacks.deepfool import DeepFool
from featavg.robustness.attacks.directions import Directions
from featavg.robustness.attacks.foolbox_bridge import Foolbox
from featavg.robustness.attacks.multi_start_ddn import MultiStartDDN
from featavg.robustness.attacks.pgd import PGD
from featavg.robustness.attacks.polish import Polish
from featavg.robustness.attacks.suite import ATTACKS, attack_suite
from featavg.robustness.curve import pgd_curve
from featavg.robustness.models.model import network_model

# relu(t) - relu(-t) = t: the decision is the sign of the first coordinate minus one.
LINE = TwoLayer(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([-1.0, 1.0]), np.array([[1.0, -1.0]]))
X = np.array([[3.0, 5.0], [4.0, 0.0]])


@dataclass(frozen=True)
class Leftwards(Attack):
    """Go to a fixed first coordinate, without asking for any gradient."""

    name: ClassVar[str] = "leftwards"
    norms: ClassVar[tuple[str, ...]] = ("l2",)
    condition: float = -2.0

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """What is claimed is claimed for all; the suite checks it."""
        point = problem.x.copy()
        point[:, 0] = self.condition
        return AttackEnd(point, np.ones(len(point), dtype=bool))


def test_an_attack_of_ones_own_is_shortened_and_checked() -> None:
    model = network_model(LINE, bounds=(-10.0, 10.0))
    result = attack_suite(model, X, [1, 1], attacks=Leftwards())
    np.testing.assert_allclose(result.radii, [2.0, 3.0], rtol=1e-6)
    assert result.attacks == ("leftwards",)
    assert result.attack == ["leftwards", "leftwards"]
    # What it claims and what is not so is not believed.
    false = attack_suite(model, X, [1, 1], attacks=[Leftwards(condition=2.5)])
    assert np.all(np.isinf(false.radii))
    assert false.attack == ["not found", "not found"]


def test_names_and_objects_go_together_and_refiners_go_last() -> None:
    model = network_model(binary(np.eye(2)))
    result = attack_suite(model, np.array([[3.0, 1.0]]), [1], attacks=["polish", DDN(steps=30), "deepfool"])
    assert result.attacks == ("DDN(steps=30)", "deepfool", "polish")
    np.testing.assert_allclose(result.radii, np.sqrt(2), rtol=1e-6)


def test_an_attack_of_ones_own_is_known_by_its_name() -> None:
    ATTACKS.add(Leftwards)
    try:
        model = network_model(LINE, bounds=(-20.0, 20.0))
        assert attack_suite(model, X, [1, 1], attacks=["leftwards"]).wins == {"leftwards": 2}
        with pytest.raises(InputError, match="leftwards"):
            attack_suite(model, X, [1, 1], attacks=["no such attack"])
    finally:
        ATTACKS.remove("leftwards")


def test_a_name_may_have_options() -> None:
    assert attack_suite(network_model(LINE), X, [1, 1], attacks="ddn:steps=7").attacks == ("DDN(steps=7)",)


def test_an_attack_for_another_norm_is_refused() -> None:
    with pytest.raises(InputError, match="leftwards, which is not linf"):
        attack_suite(network_model(LINE), X, [1, 1], "linf", Leftwards())


@pytest.mark.parametrize("thing", [Leftwards, 3], ids=["a class", "a number"])
def test_what_is_no_attack_is_refused(thing: object) -> None:
    # Tests check types on every call; a user's program does not, and gets the sentence.
    unchecked = inspect.unwrap(suite.chosen_attacks)
    with pytest.raises(InputError, match="attacks hold a"):
        unchecked([thing], network_model(LINE), "l2")


@pytest.mark.parametrize(
    "make",
    [
        lambda: DDN(steps=0),
        lambda: DeepFool(steps=-1),
        lambda: PGD(steps=0),
        lambda: PGD(rounds=0),
        lambda: PGD(restarts=0),
        lambda: Polish(rounds=0),
        lambda: Directions(steps=0),
        lambda: attack_suite(network_model(LINE), X, [1, 1], budget=0),
    ],
)
def test_an_attack_without_steps_is_refused(make) -> None:
    with pytest.raises(InputError, match=r"give (a whole number|1 or more)"):
        make()


@pytest.mark.parametrize("attack", [ATTACKS.build(name) for name in ATTACKS], ids=repr)
def test_every_registered_attack_is_public_with_a_short_repr(attack: Attack) -> None:
    assert getattr(fa.attacks, type(attack).__name__) is type(attack)
    assert repr(attack) == f"{type(attack).__name__}()"
    assert str(attack) == attack.name


def test_reprs_are_what_one_types() -> None:
    for text in ("DDN(steps=7)", "DDN(targeted=False)", "Foolbox('L2PGD', {'steps': 3})"):
        assert repr(eval(text, {"DDN": DDN, "Foolbox": Foolbox})) == text
    assert str(Foolbox("L2PGD")) == "foolbox:L2PGD"


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_flat_place_is_left_towards_a_point_that_is_decided_otherwise(norm: str) -> None:
    """1 - relu(t - 5): at t = 0 there is no gradient, and random starts are as short as other radii."""
    flat = TwoLayer(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([1.0, -5.0]), np.array([[1.0, -1.0]]))
    model = network_model(flat, bounds=(-20.0, 20.0))
    points = np.array([[0.0, 0.0], [6.1, 0.0], [7.0, 1.0]])
    result = attack_suite(model, points, [1, -1, -1], norm, attacks=MultiStartDDN(steps=60))
    np.testing.assert_allclose(result.radii, [6.0, 0.1, 1.0], rtol=1e-3)


def test_progress_rises_by_cost_and_says_what_is_done() -> None:
    seen: list[tuple[float, str]] = []
    model = network_model(LINE, bounds=(-9.0, 9.0))
    attacks = [DDN(steps=30), MultiStartDDN(steps=60), Leftwards()]
    attack_suite(model, X, [1, 1], attacks=attacks, budget=10, progress=lambda *told: seen.append(told))
    shares = [share for share, _ in seen]
    assert shares == sorted(shares)
    assert (shares[0], seen[0][1]) == (0.0, "DDN(steps=30)")
    # 30 of 30 + 60 + 10 gradients are done when the second attack begins.
    begins = {note: share for share, note in seen}
    assert begins["MultiStartDDN(steps=60)"] == pytest.approx(0.3)
    assert begins["leftwards"] == pytest.approx(0.9)
    assert "MultiStartDDN(steps=60): refining the shortest" in begins
    points: list[float] = []
    pgd_curve(model, X, [1, 1], [0.1, 0.2], progress=lambda share, _: points.append(share))
    assert points == [0.0, 0.5]


@pytest.mark.parametrize(
    ("norm", "budget", "descents"),
    [("l2", 60, 3), ("l2", 120, 7), ("l2", 240, 15), ("linf", 60, 3), ("linf", 120, 4), ("linf", 240, 9)],
)
def test_a_larger_budget_buys_more_descents_not_longer_ones(norm, budget, descents) -> None:
    model = network_model(binary(np.eye(2)))
    told = []
    problem = AttackProblem(
        model, np.array([[3.0, 1.0]]), np.array([1]), np.array([2.0]), norm, budget=budget,
        progress=lambda share, note: told.append(note),
    )  # fmt: skip
    before = model.cost.gradients
    MultiStartDDN()(problem)
    assert told == [f"descent {i + 1} of {descents}" for i in range(descents)] + ["refining the shortest"]
    assert model.cost.gradients - before <= budget
