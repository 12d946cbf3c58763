"""Activations. A file here is an activation, its name the file's."""

from featavg.nets.activations._activation import Activation as Activation
from featavg.nets.activations.leaky_relu import LeakyReLU as LeakyReLU
from featavg.nets.activations.relu import ReLU as ReLU
