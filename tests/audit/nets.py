"""Small networks on digits, as the tests of the audit share them."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

QUICK = {"images": 300, "radii": 6, "gradients": 8}


def network(outputs=2, width=12, seed=0):
    """Two layers, untrained."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, outputs))


def fitted(net, x, labels, steps=60, rate=0.02):
    """The same network after a few full-batch steps."""
    optimizer = torch.optim.Adam(net.parameters(), rate)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(labels).long()
    for _ in range(steps):
        optimizer.zero_grad()
        z = net(inputs)
        logits = torch.cat([torch.zeros_like(z), z], dim=1) if z.shape[1] == 1 else z
        nn.functional.cross_entropy(logits, targets).backward()
        optimizer.step()
    return net


def converged(net, x, labels, epochs=25, rate=3e-3):
    """The same network after epochs of small batches."""
    optimizer = torch.optim.Adam(net.parameters(), rate)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(labels).long()
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(inputs[rows]), targets[rows]).backward()
            optimizer.step()
    return net.eval()


def linear(w, b):
    """A layer with these weights."""
    layer = nn.Linear(w.shape[1], w.shape[0])
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(w))
        layer.bias.copy_(torch.from_numpy(b))
    return layer


def layers(weights, inplace=False):
    """The four layers of the perceptron."""
    w, b, head, c = weights
    return [nn.Flatten(), linear(w, b), nn.ReLU(inplace), linear(head, c)]


class Attention(nn.Module):
    """An image's rows as tokens."""

    def __init__(self, outputs=2, dropout=0.0):
        super().__init__()
        self.embed, self.head = nn.Linear(8, 16), nn.Linear(16, outputs)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=dropout)

    def forward(self, x):
        return self.head(self.block(self.embed(x[:, 0])).mean(dim=1))
