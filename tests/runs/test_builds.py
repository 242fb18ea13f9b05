"""What was best before is launched by its own engine, everything else by the engine of now."""

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.launch_bench import WORKLOAD, NeverInterrupted
from tests.support.played_run import DEFAULT, PlayedLauncher, candidate
from tests.support.trials import measured
from tuner.core.launch import PREVIOUS, LaunchSpec
from tuner.runs.builds import EitherLauncher
from tuner.runs.works.benchmark import Benchmark

if TYPE_CHECKING:
    from tuner.runs.protocols import Launcher


def test_each_spec_goes_to_its_own_launcher(tmp_path: Path) -> None:
    now = PlayedLauncher(plays=lambda _spec: measured(50.0))
    then = PlayedLauncher(plays=lambda _spec: measured(60.0))
    either: Launcher = EitherLauncher(now, then)
    old = LaunchSpec(None, PREVIOUS)
    for spec in (LaunchSpec(candidate(64)), DEFAULT, old):
        assert either.portable_argv(spec) == ["llama-server", spec.key]
        either.run(
            spec,
            either.plan(spec),
            WORKLOAD,
            Benchmark(WORKLOAD, spec.asked, lambda _sample: None),
            log_path=tmp_path / "log",
            on_spawn=lambda _pid, _at: None,
            interrupts=NeverInterrupted(),
        )
    assert [one.key for one in now.launched] == [candidate(64).key(), DEFAULT.key]
    assert [one.key for one in then.launched] == [old.key]
