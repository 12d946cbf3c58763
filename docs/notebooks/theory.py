# %% [markdown]
# # The theory in twenty minutes
#
# Why does gradient descent on class labels learn features that are easy to attack, and what do
# finer labels change? Everything here runs in a few seconds; change a number and run it again.
#
# ## 1. The data
#
# Points come in $k$ clusters, each around a direction of its own, its *feature* $\mu_j$, plus
# Gaussian noise. Half of the clusters are one class, the other half the other.

# %%
import numpy as np

import featavg as fa

task = fa.MultiCluster(k=10, d=3072)
task.sample(5, seed=0).clusters

# %% [markdown]
# ## 2. Two networks on the same sample
#
# The first learns the class of each point (*coarse* labels), the second its cluster (*fine*
# labels). Both start small and are trained by plain gradient descent.

# %%
coarse = fa.train(task, labels="coarse", n=1000, seed=0)
coarse

# %%
fine = fa.train(task, labels="fine", n=1000, seed=0)
fine

# %% [markdown]
# ## 3. What have they learned?
#
# The cosines of neurons and features. With class labels every neuron points at all five features
# of its class at once, each at a cosine of about $1/\sqrt5 = 0.447$: an **average**.

# %%
print(fa.cosines(coarse, task).round(2))

# %% [markdown]
# With cluster labels each group of neurons has one feature: they are **decoupled**.

# %%
print(fa.cosines(fine, task).round(2))

# %% [markdown]
# The *averaging index* says it in one number: 1 for an equal sum of all features of the class, 0
# for a single one; "random" is what random directions would have.

# %%
print(fa.averaging_index(coarse.net, task))
print(fa.averaging_index(fine.net, task))

# %% [markdown]
# ## 4. On clean points nothing is lost

# %%
test = task.sample(60, seed=1)
fa.accuracy(coarse.net, test), fa.accuracy(fine.net, test)

# %% [markdown]
# ## 5. What an average costs
#
# The *radius* of a point is the distance to the nearest point that is decided otherwise. For
# these networks it is computed exactly: a certified end (nothing nearer flips) and an attack end
# (this point does) that meet.
#
# The theory says $\sqrt{d/k}$ for the average and $\sqrt{d/2}$ for the decoupled network,
# whatever $d$ is.

# %%
averaged = fa.radii(coarse.net, test)
averaged

# %%
decoupled = fa.radii(fine.net, test, readout="max")
decoupled

# %%
print(f"theory:   {np.sqrt(task.d / task.k):.1f}, {np.sqrt(task.d / 2):.1f}")
print(f"measured: {averaged.median[0]:.1f}, {decoupled.median[0]:.1f}")

# %% [markdown]
# ## 6. One vector fools all
#
# An average adds up all features of a class, so a little against each of them is enough, and it
# is the same little for every point.

# %%
features = task.features_in(coarse.net.dimension)
signs = task.cluster_labels
direction = -(signs[:, None] * features).sum(axis=0)
direction /= np.linalg.norm(direction)
x = test.coordinates(coarse.net.dimension)
for length in (0.8, 1.0, 1.2):
    moved = x + length * np.sqrt(task.d / task.k) * test.y[:, None] * direction
    flipped = np.sign(coarse.net(moved)[:, 0]) != test.y
    print(f"length {length} sqrt(d/k): {flipped.mean():.0%} of the points are fooled")

# %% [markdown]
# ## 7. The read-out matters
#
# From ten outputs to two classes there are several ways. `max` compares the best output of each
# side, `sum` adds them up. They agree on clean points and look alike under a gradient attack; the
# exact radii tell them apart.

# %%
for readout in ("max", "sum"):
    print(f"{readout}: {fa.radii(fine.net, test, readout=readout).median[0]:.1f}")

# %% [markdown]
# ## 8. Any dimension
#
# Gradient descent sees data only through inner products, and Gaussian noise has no preferred
# direction. So the same sample can be drawn, exactly in law, in $n + k + M$ coordinates: $d =
# 10^{12}$ costs no more than $d = 3072$.

# %%
huge = fa.MultiCluster(k=10, d=10**12)
recipe = fa.Recipe(lr=3e-12, sigma_w=1e-14, sigma_b=1e-14)  # what shrinks like 1/d
net = fa.train(huge, recipe, n=300, seed=0).net
radius = fa.radii(net, huge.sample(20, seed=1)).median[0] / np.sqrt(huge.d / huge.k)
index = fa.averaging_index(net, huge).mean
print(f"averaging index {index:.3f}, radius {radius:.3f} sqrt(d/k)")

# %% [markdown]
# ## Where next
#
# Change `k`, `labels`, `stepper="adam"`, or the angle between features (`cosine=0.5`), and look
# again. What the theory's statements come out as, all of them, is on the page of verdicts;
# `fa.paper.reproduce(only="theorem-1")` runs some here.
