"""Fully connected public MNIST networks: wide, and deep."""

from __future__ import annotations

from featavg.paper.engine.claim import Context, Evidence, claim
from featavg.paper.verification.decided import Row, decide, evidence, open_images
from featavg.paper.verification.networks import CROWN, MIP, ROBUSTNESS, PublicFile, PublicImages, arrays, dense

TEST = PublicImages()
SHA256 = {
    "W1": "074e6d3f6e2e9a3d55bbc62014e366e0d419657a27a90b0bec54d1d24e2c83f2",
    "B1": "82e61ae93e229c823c4b3d536d2c17f41638e51fe4cb65d9d18262e4d0663e14",
    "W2": "b6a3fc8aca69afd8ab63378f4b077e572b2593677dc9fca2ec3f545ea7c81af1",
    "B2": "c6fcf4acc1f5f4fbeb1946cfc80fc99e2fb32ade2db53f5ffc8f9239457ace5b",
}
RSL18A = arrays(*(PublicFile(MIP, f"weights/mnist/RSL18a/linf0.1/{k}.npy", v) for k, v in SHA256.items()))
MODELS = "complete_verifier/models/eran"
SIX = dense(CROWN, f"{MODELS}/mnist_6_100_nat.pth", "38f0dcd40e28d890f7a70809ea8821455349af7cb635604e99286a4970beaf5d")
NINE = dense(CROWN, f"{MODELS}/mnist_9_200_nat.pth", "90db3361c48e8421c2588153dd35bf2b1a893101cfb9b7129706cca655b8a067")
TWO = dense(
    ROBUSTNESS,
    "networks_onnx/MNIST/fomlas/mnist-net_256x2.onnx",
    "3a5c9730d60bbf1f9b030e731b438436581efd7c00a28ab683c1ec4b6d3449c4",
)
# The aim: a tenth of the images may be left open.
OPEN = 0.1


@claim(
    "verification-dense", "Public dense networks are decided at l2 radii where nothing is published",
    theme="Verification",
    source="Raghunathan et al. 2018 (784-500-10), ERAN's mnist_6_100 and mnist_9_200 and a 784-256-256-10; "
    "public weights, l2 results are published nowhere",
    measured="`fa.certify` on the first MNIST test images, with a budget of 60 seconds an image (of wall "
    "clock, prolonged on a busy machine by a guess, so that an open image may have had fewer seconds of CPU), "
    "without a box and with flips in [0, 1]; images left open",
    tier="full", minutes=40, needs=("torch", "onnx", "mnist"), seeds=1, runs=0,
)  # fmt: skip
def dense_networks(run: Context, images: int = 40, few: int = 5, seconds: float = 60.0) -> Evidence:
    """At most a tenth of the images is left open at 60 CPU seconds: 784-500-10 at l2 radius 1.0, five layers
    of 100 and eight of 200 neurons at 0.1, two layers of 256 at 0.5 (the last two on few images).
    """
    rows = [
        Row("RSL18a 784-500-10", RSL18A, TEST, images, 1.0, False),
        Row("mnist_6_100", SIX, TEST, images // 4, 0.1, False),
        Row("mnist_9_200", NINE, TEST, few, 0.1, False),
        Row("784-256-256-10", TWO, TEST, few, 0.5, False),
        Row("RSL18a 784-500-10", RSL18A, TEST, few, 1.0, True),
    ]
    found = decide(rows, run, seconds)
    return evidence(found, *(open_images(one, OPEN * one["images"]) for one in found))
