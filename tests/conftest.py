"""What every test shares: one thread a worker, no window system, repeatable hypothesis runs."""

import os

import hypothesis
import threadpoolctl

# Before anything imports numpy or torch, and inherited by the xdist workers and by subprocesses.
for _variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")

# A pytest plugin may have imported numpy before this file: limit the pools that exist already.
threadpoolctl.threadpool_limits(1)

# Time on a shared machine says nothing about the code, so no deadline. In CI the examples are
# fixed, so that a red run is about the change; new examples are looked for locally.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")
