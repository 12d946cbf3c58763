# %% [markdown]
# # Exact robustness
#
# How far is the nearest point that a network decides otherwise? An attack gives an upper bound,
# and may be fooled. This notebook computes the answer, with a proof, for networks small enough,
# and shows what attacks miss.
#
# ## 1. A bracket with a witness

# %%
import numpy as np

import featavg as fa

rng = np.random.default_rng(0)
net = fa.binary(rng.standard_normal((8, 20)))
x = rng.standard_normal((12, 20))
y = np.where(net(x)[:, 0] > 0, 1, -1)
exact = fa.radii(net, x, y)
exact

# %% [markdown]
# `certified`: no flipped point is nearer. `attack`: the distance of `witness`, a point that was
# evaluated and is flipped.

# %%
print(exact.certified[:4].round(6))
print(exact.attack[:4].round(6))
beyond = (y * net(exact.witness)[:, 0]).max()
print(
    f"the decision at the witnesses: at most {max(beyond, 0.0):.0e}, where a flip begins at 0"
)

# %% [markdown]
# ## 2. Attacks are upper bounds
#
# The suite runs several minimal-norm attacks and keeps the nearest point. Here it can be held
# against the truth.

# %%
found = fa.attack_suite(fa.network_model(net), x, y)
found

# %%
excess = (found.radii / exact.attack - 1).max()
print(f"largest excess over the exact radius: {excess:.2%}")

# %% [markdown]
# ## 3. An attack that is fooled
#
# A network with fine labels under the read-out `sum`: dead ReLUs hide the direction that lifts a
# little of every feature of the other class. PGD, at growing radii as in the paper, reports
# points as robust that are not.

# %%
task = fa.MultiCluster(k=10, d=3072)
fine = fa.train(task, labels="fine", n=300, seed=0).net
test = task.sample(20, seed=1)
truth = fa.radii(fine, test, readout="sum")
points = test.coordinates(fine.dimension)
model = fa.network_model(fine, positive=task.positive_clusters, readout="sum")
grid = [20.0, 25.0, 30.0, 35.0]
pgd = fa.pgd_curve(model, points, test.y, grid, own=test.clusters, steps=20)
exactly = truth.robust_accuracy(np.array(grid))[0]
for radius, by_pgd, really in zip(grid, pgd.accuracy, exactly, strict=True):
    print(f"radius {radius:.0f}: robust {by_pgd:.0%} by PGD, {really:.0%} exactly")

# %% [markdown]
# ## 4. Deeper networks, any number of classes
#
# Branch and bound over the signs of neurons. Leaky ReLUs and residual connections are allowed.

# %%
shape = [(8, 6), (8, 8), (3, 8)]
deep = fa.Deep(tuple(rng.standard_normal(s) for s in shape), residual=True)
points = rng.standard_normal((10, 6))
labels = deep(points).argmax(axis=1)
fa.radii(deep, points, labels)

# %% [markdown]
# ## 5. Wide networks: decide at one radius
#
# "Is there a flip within r?" is easier than the radius itself: most neurons are stable in the
# ball. The answers are proofs (`certified`), witnesses (`flipped`), or `open` when the budget ran
# out.

# %%
wide = fa.Deep(
    (
        rng.standard_normal((60, 10)) / 3,
        rng.standard_normal((60, 60)) / 8,
        rng.standard_normal((3, 60)) / 8,
    )
)
points = rng.standard_normal((10, 10))
labels = wide(points).argmax(axis=1)
fa.certify(wide, points, labels, radius=0.05, budget=fa.Budget(nodes=500, seconds=2))

# %% [markdown]
# ## 6. Robust accuracy, with a proof
#
# From the certified ends of all points: the share that no perturbation of a given length flips.

# %%
coarse = fa.train(task, labels="coarse", n=300, seed=0).net
averaged, decoupled = fa.radii(coarse, test), fa.radii(fine, test, readout="max")
for radius in (10.0, 15.0, 20.0, 30.0, 40.0):
    share = averaged.robust_accuracy(np.array([radius]))[0]
    other = decoupled.robust_accuracy(np.array([radius]))[0]
    print(f"radius {radius:.0f}: averaged {share[0]:.0%}, decoupled {other[0]:.0%}")
