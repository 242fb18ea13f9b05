"""A launch waits for RPC servers that are coming back."""

import socket

from tuner.rig.rpc_endpoints import wait_until_accepting


def bound() -> socket.socket:
    """A port that is ours and does not accept yet."""
    place = socket.socket()
    place.bind(("127.0.0.1", 0))
    return place


def endpoint_of(place: socket.socket) -> str:
    return f"127.0.0.1:{place.getsockname()[1]}"


def test_without_rpc_devices_nothing_is_waited_for() -> None:
    assert wait_until_accepting({}, sleep=lambda _: 1 / 0) == []


def test_a_server_that_comes_back_is_waited_for() -> None:
    with bound() as place:
        waits: list[float] = []

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                place.listen()

        assert wait_until_accepting({endpoint_of(place): "RPC0"}, sleep=sleep) == []
        assert len(waits) == 3


def test_a_server_that_stays_away_is_named_when_the_time_is_over() -> None:
    with bound() as away, bound() as there:
        there.listen()
        now = iter(range(100))
        endpoints = {endpoint_of(there): "RPC0", endpoint_of(away): "RPC1"}
        silent = wait_until_accepting(endpoints, sleep=lambda _: None, clock=lambda: float(next(now)))
    assert silent == ["RPC1"]
