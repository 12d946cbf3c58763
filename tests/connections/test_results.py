"""Results of the experiments: a figure, JSON, a text that fits a screen, and both in a notebook."""

import json

import pytest

import featavg as fa

SMALL = {
    "boundary_picture": lambda: fa.boundary_picture(k=4, d=400, n=100),
    "expressivity": lambda: fa.expressivity(m=4),
    "hinted_margin": lambda: fa.hinted_margin(leak=0.2),
    "implicit_bias": lambda: fa.implicit_bias(k=4, d=400, n=60),
    "optimal_radius": lambda: fa.optimal_radius(k=4, d=400),
    "off_manifold": lambda: fa.off_manifold(k=4, d=200, r=20),
    "power_relu_run": lambda: fa.power_relu_run(p=3.0, k=4, n=40, width=30, time=2000.0),
    "slab_reliance": lambda: fa.slab_reliance(d=5, n=600, widths=(8,), steps=50),
    "useful_features": lambda: fa.useful_features(k=4, d=400, n=500),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_result_can_be_shown_everywhere(name):
    result = SMALL[name]()
    assert json.loads(json.dumps(result.to_json())) != {}
    text = repr(result)
    assert 20 < len(text) < 2000
    html = result._repr_html_()
    assert html.startswith("<figure><svg")
    assert html.count("<svg") == 1
    with pytest.raises(AttributeError):
        result.anything = 1
