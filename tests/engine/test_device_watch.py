"""What is known of the devices while a server runs."""

from tuner.core.rig import Device, Rig
from tuner.engine.device_watch import DeviceWatch

RIG = Rig(
    (
        Device("RPC0", "127.0.0.1:50052", total_mib=0, free_mib=0),
        Device("CUDA0", "NVIDIA GeForce RTX 5080", total_mib=16303, free_mib=15900),
        Device("CUDA1", "NVIDIA GeForce RTX 3090", total_mib=24576, free_mib=24000),
    )
)


def test_endpoints_are_those_of_rpc_devices() -> None:
    assert DeviceWatch(RIG).endpoints == {"127.0.0.1:50052": "RPC0"}


def test_free_fractions_are_known_where_a_driver_says_and_memory_has_a_size() -> None:
    watch = DeviceWatch(RIG)
    assert watch.fraction({"CUDA1": 12288, "RPC0": 0}) == {"CUDA1": 0.5}
    assert watch.fraction({}) == {}
