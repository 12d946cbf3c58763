# %% [markdown]
# # Audit of a network
#
# Does a classifier of yours average its features, what does that cost, and what would help? This
# notebook trains two small networks on real digits, one on "even or odd", one on the digit,
# and audits the first beside the second. Needs PyTorch, in the folder of the clone
# `pip install -c constraints.txt -e '.[torch]'`; put your own network and images in their place.

# %%
import torch
from torch import nn

import featavg as fa

task = fa.load_images("digits")
task

# %% [markdown]
# ## 1. Two networks


# %%
def trained(labels, outputs, steps=300):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, outputs)
    )
    images = torch.from_numpy(task.train.unit)
    targets = torch.from_numpy(labels)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), targets).backward()
        optimizer.step()
    return net


coarse = trained(task.groups[task.train.fine], 2)
fine = trained(task.train.fine, 10)

# %% [markdown]
# ## 2. The audit
#
# Images that the network was not trained on, their classes, and their sub-classes. The progress
# bar shows itself while it works.

# %%
test = task.test
with fa.ProgressBar() as bar:
    report = fa.audit(
        coarse,
        test.unit,
        task.groups[test.fine],
        test.fine,
        images=300,
        radii=10,
        gradients=30,
        twin=fine,
        names=task.fine_names,
        progress=bar,
    )
report

# %% [markdown]
# What led to the verdict, in words:

# %%
print(report.verdict.value)
print(report.judgement.reason)

# %% [markdown]
# ## 3. Without sub-classes
#
# Where the sub-classes are unknown the audit looks for some by clustering. "Decoupled" can then
# be trusted; "averages" may also mean that the clusters were not found.

# %%
blind = fa.audit(
    coarse, test.unit, task.groups[test.fine], clusters=3, radii=5, gradients=20
)
print(blind.verdict.value)

# %% [markdown]
# ## 4. A page to pass on

# %%
import tempfile

page = fa.write_audit(report, tempfile.mkdtemp())
page.name
