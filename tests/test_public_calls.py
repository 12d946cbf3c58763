"""Public names called once: nothing of the user's changes, and answers fit a screen."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import featavg as fa
from public_calls import CALLS


def test_calls_change_nothing_of_the_users_and_their_answers_fit_a_screen() -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "tests.unchanged"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1]
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "0 problems" in done.stdout


def test_the_table_has_every_function_that_takes_arguments() -> None:
    """A new public function gets a row, or a reason here."""
    without = {
        "all_claims", "all_statements",
        "adversarial_study", "bias_grid", "border_map", "clean_error", "compare_attacks",
        "compare_rates", "compare_readouts", "cosine_matrices", "curve", "dead_neurons_study",
        "decoupling_lemmas", "depth_averaging", "depth_boundary", "depth_margin", "depth_probe",
        "depth_scaling", "discover_labels", "draw_packed", "equal_angles", "geometry_study",
        "homogeneous_flow", "image_curve", "image_presets", "kkt_radius", "kkt_run", "label_table",
        "linf_study", "load_simulation", "load_trained", "load_trajectory", "margin_table", "margins",
        "optimizer_study", "paired_pictures", "paper_run", "playground", "projected_coefficients",
        "radius_growth", "radius_report", "read_labelled", "rebuild", "remark_lengths", "reproduce",
        "robust_curves", "run", "slopes", "start_sweep", "study_superclasses", "theorem_run",
        "theorem_scale", "theorem_sweep", "train_margin_network", "unequal_clusters",
        "universal_vector", "write_audit",
    }  # fmt: skip
    functions = {name for name in fa.__all__ if inspect.isfunction(getattr(fa, name))}
    assert functions - set(CALLS) - without == set()
