"""Small public convolutional networks: where `certify` stands, not where it should."""

from __future__ import annotations

from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.verification.decided import Row, decide, evidence
from featavg.paper.verification.networks import CONVEX, SDP, PublicFile, PublicImages, small_convolutional
from featavg.paper.verification.sdp_crown import MNIST

CIFAR = PublicImages(
    (
        PublicFile(
            SDP, "datasets/sdp/cifar/X_sdp.npy", "bc487064171fc74ce09b8c29db029da3a9be1f0275a23aa2f3aca6ccacb6958e"
        ),
        PublicFile(
            SDP, "datasets/sdp/cifar/y_sdp.npy", "b02c682406c3ae3aeba6b0fa0f6598ddb1d0331ce87c9b869136263946296dbd"
        ),
    )
)
CONV_SMALL = small_convolutional(
    PublicFile(SDP, "models/mnist_convsmall.pth", "d8de39ffa807c8196dee402510a3c5b409a24011dabbfb60e0e0a0c4068e1c24"),
    1,
    28,
)
CNN_A = small_convolutional(
    PublicFile(SDP, "models/cifar10_cnn_a.pth", "2a5006d58d1baab4a593bacc1d316dbb64759e2c3b22b096f009811fa3c090f9"),
    3,
    32,
    # Theirs: 62% of the 200 images are then classified rightly.
    mean=(0.4914, 0.4824, 0.4467),
    std=(0.225,) * 3,
)
L2_TRAINED = small_convolutional(
    PublicFile(
        CONVEX,
        "models_scaled_l2/cifar_small_36px.pth",
        "d99894f1fe2866dd3509d3b2a69e16110e58c8d04bd696a070ad6e23d22f11b7",
    ),
    3,
    32,
    mean=(0.485, 0.456, 0.406),
    std=(0.225,) * 3,
)


@claim(
    "verification-convolutional", "Where certificates of small convolutional networks stand",
    theme="Verification",
    source="Chiu et al. 2025, rows MNIST ConvSmall and CIFAR-10 CNN-A; Wong et al. 2018, cifar_small at 36 px",
    measured="`fa.certify` on the unrolled networks and the first two of SDP-CROWN's images, with 10 seconds of "
    "one core an image, without a box",
    tier="full", minutes=20, needs=("torch",), seeds=1, runs=0,
)  # fmt: skip
def convolutional(run: Context, images: int = 2, seconds: float = 10.0) -> Evidence:
    """Networks of thousands of neurons load and are tried; an image costs at most 1.2 times the seconds that
    it may cost. How many are decided is measured, not claimed.
    """
    rows = [
        Row("ConvSmall", CONV_SMALL, MNIST, images, 0.3, False, "81.5% verified, 84.5% left by attacks"),
        Row("CNN-A", CNN_A, CIFAR, images, 24 / 255, False, "49% verified, 55.5% left by attacks"),
        Row("cifar_small_36px", L2_TRAINED, CIFAR, images, 36 / 255, False, "see Wong et al. 2018"),
    ]
    found = decide(rows, run, seconds)
    most = max(one["cpu_seconds_most"] for one in found) / seconds
    return evidence(found, Check("the longest image, of its seconds", most, "<=", 1.2))
