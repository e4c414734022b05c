"""Measurements on the GPU that is here: one tile bit for bit, and scans over tiles beside the model's predictions."""

from layoutgen.probing.device import Card, Device, TorchDevice
from layoutgen.probing.probes import Probe, Row, probe_attention, probe_matmul, probe_tile

__all__ = ["Card", "Device", "Probe", "Row", "TorchDevice", "probe_attention", "probe_matmul", "probe_tile"]
