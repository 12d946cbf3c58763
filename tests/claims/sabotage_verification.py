"""Sabotage of the claims on public networks, with small networks in their place."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from tests.claims.sabotage import Sabotage, together

from featavg.nets.deep import Deep
from featavg.paper.verification import decided, prelu
from featavg.paper.verification.networks import PublicFile, PublicImages, PublicNetwork
from featavg.robustness.certify import Certificate

# Two outputs, the larger coordinate: five points far from the diagonal, five nearer than any radius.
NET = Deep((np.eye(2), np.eye(2)))
POINTS = np.array([[2.0, 0.2], [0.5, 0.4999]] * 20) / 2.0
TORCH = ("torch",)


def toys(monkeypatch) -> None:
    monkeypatch.setattr(PublicNetwork, "loaded", lambda *_: NET)
    monkeypatch.setattr(PublicImages, "loaded", lambda *_: (POINTS, np.zeros(len(POINTS), int)))
    monkeypatch.setattr(decided, "kept_values", lambda folder, key, compute: compute())


def undecided(monkeypatch) -> None:
    honest = decided.certify

    def certify(*given, **named):
        found = honest(*given, **named)
        return replace(found, status=(Certificate.OPEN,) * len(found))

    monkeypatch.setattr(decided, "certify", certify)


def wrong_witness(monkeypatch) -> None:
    honest = decided.certify

    def certify(net, x, *given, **named):
        return replace(honest(net, x, *given, **named), witness=x.copy())

    monkeypatch.setattr(decided, "certify", certify)


def slow(monkeypatch) -> None:
    clock = iter(range(0, 10**6, 30))
    monkeypatch.setattr(decided, "process_time", lambda: float(next(clock)))


def attacks_leave(*shares: float):
    """Made-up attacks that leave these shares, for p = 1 to 4."""

    def patch(monkeypatch) -> None:
        left = iter(shares)
        empty = SimpleNamespace(state_dict=dict)
        test = SimpleNamespace(unit=POINTS.reshape(-1, 1, 2), fine=np.zeros(len(POINTS), int))
        monkeypatch.setattr(PublicFile, "found", lambda *_: None)
        monkeypatch.setattr(prelu, "public_power_net", lambda *_: empty)
        monkeypatch.setattr(prelu, "torch_model", lambda *_, **__: None)
        monkeypatch.setattr(prelu, "data_needed", lambda *_: SimpleNamespace(test=test))

        def attack_suite(model, x, y, *given, **named):
            found = np.where(np.linspace(0.0, 1.0, len(x)) <= next(left), 2.0, 0.5)
            return SimpleNamespace(radii=found)

        monkeypatch.setattr(prelu, "attack_suite", attack_suite)
        monkeypatch.setattr(prelu, "kept_arrays", lambda folder, key, compute: compute())

    return patch


SMALL = {"images": 6, "seconds": 20.0}
ROWS = (
    Sabotage("verification-sdp-crown", "certify decides nothing", undecided, toys, {**SMALL, "images": 2}),
    Sabotage("verification-dense", "a witness does not flip", wrong_witness, toys, {**SMALL, "some": 3, "few": 3}),
    Sabotage("verification-convolutional", "images take longer than they may", slow, toys, SMALL),
    Sabotage(
        "verification-prelu",
        "attacks leave twice as much",
        attacks_leave(0.6, 0.6, 0.7, 0.77),
        together(toys, attacks_leave(0.3, 0.5, 0.7, 0.77)),
        {"images": 40, "few": 2, "seconds": 20.0},
        needs=TORCH,
    ),
)
