"""Activations. A file here is an activation, its name the file's."""

from featavg.nets.activations._activation import Activation as Activation
from featavg.nets.activations._activation import LeakyReLU as LeakyReLU
from featavg.nets.activations._activation import ReLU as ReLU
