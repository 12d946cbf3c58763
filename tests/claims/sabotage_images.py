"""Sabotage of the quick claims on images and on the audit."""

from dataclasses import replace

from tests.claims.sabotage import Sabotage

from featavg.claims.images import audit, digits


def small_digits(monkeypatch):
    monkeypatch.setattr(digits, "POINTS", 10)


def class_labels_only(monkeypatch):
    """Training never sees the finer labels."""
    study = digits.study_heads
    monkeypatch.setattr(
        digits, "study_heads", lambda features, labels, *rest: study(features, "coarse", *rest)
    )


def small_audit(monkeypatch):
    monkeypatch.setattr(audit, "N", 200)


def labels_swapped(monkeypatch):
    """Class labels decouple and cluster labels average."""
    honest = audit.simulated_sharing

    def swapped(*args):
        row = honest(*args)
        return replace(row, coarse=row.fine, fine=row.coarse)

    monkeypatch.setattr(audit, "simulated_sharing", swapped)


ROWS = (
    Sabotage(
        "images-digits", "training never sees finer labels", class_labels_only, small_digits, (0,)
    ),
    Sabotage("audit-shared-gradient", "class labels decouple", labels_swapped, small_audit, (0,)),
)
