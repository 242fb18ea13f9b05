"""Reads a command line as llama-server does: environment first, then arguments, the last one wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.fake_llama.values import complaint, is_off, is_on, leading_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from tests.support.fake_llama.log import Log
    from tests.support.fake_llama.options import Option, OptionTable


class RefusedError(Exception):
    """The engine writes this to stderr and exits with 1."""


class Arguments:
    """The values given, by option; switches are "on" and "off", what was not given is None."""

    def __init__(self, table: OptionTable) -> None:
        self.table = table
        self._values: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        """Looks a value up by any spelling without dashes; None also if this build has no such option."""
        option = self.table.find_name(name)
        return None if option is None else self._values.get(option.name)

    def text(self, name: str, default: str) -> str:
        value = self.get(name)
        return default if value is None else value

    def integer(self, name: str, default: int) -> int:
        value = self.get(name)
        return default if value is None else leading_integer(value)

    def number(self, name: str, default: float) -> float:
        value = self.get(name)
        return default if value is None else float(value)

    def is_on(self, name: str, *, default: bool) -> bool:
        value = self.get(name)
        return default if value is None else not is_off(value)

    def set(self, option: Option, value: str) -> None:
        before = self._values.get(option.name)
        # --spec-type appends; everything else is overwritten.
        appended = option.name == "spec-type" and before is not None
        self._values[option.name] = f"{before},{value}" if appended else value


class ArgumentReader:
    """Fills `Arguments`.

    Args:
        table: The options of the build.
        device_names: What `--device` may name.
        at_once: Called with an option as soon as it is read: `--version` and `--list-devices` end there.
        log: Where the engine's warnings go.
    """

    def __init__(
        self,
        table: OptionTable,
        device_names: Collection[str],
        *,
        at_once: Callable[[Option], None],
        log: Log,
    ) -> None:
        self._table = table
        self._device_names = device_names
        self._at_once = at_once
        self._log = log

    def read(self, argv: Sequence[str], environment: Mapping[str, str]) -> Arguments:
        """Reads both sources.

        Raises:
            RefusedError: The engine would not start; the message is its own.
        """
        arguments = Arguments(self._table)
        self._read_environment(arguments, environment)
        self._read_argv(arguments, argv, environment)
        return arguments

    def _read_environment(self, arguments: Arguments, environment: Mapping[str, str]) -> None:
        for option in self._table.options:
            value = environment.get(option.env) if option.env else None
            if value is None:
                continue
            if option.value_count == 0:
                if is_on(value) or (option.negative and is_off(value)):
                    arguments.set(option, "on" if is_on(value) else "off")
                continue
            if words := complaint(option, value, self._device_names):
                raise RefusedError(f'error while handling environment variable "{option.env}": {words}\n\n\n')
            arguments.set(option, value)

    def _read_argv(self, arguments: Arguments, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        seen: set[str] = set()
        words = iter(argv)
        for word in words:
            spelling = word.replace("_", "-") if word.startswith("--") else word
            option = self._table.find(spelling)
            if option is None:
                raise RefusedError(f"error: invalid argument: {spelling}\n")
            if spelling in seen and option.name != "spec-type":
                self._log.warn(
                    f"DEPRECATED: argument '{spelling}' specified multiple times, use comma-separated values "
                    "instead (only last value will be used)"
                )
            seen.add(spelling)
            if option.env and option.env in environment:
                self._log.raw(
                    f"warn: {option.env} environment variable is set, but will be overwritten by command "
                    f"line argument {spelling}"
                )
            arguments.set(option, self._value(option, spelling, words))
            self._at_once(option)

    def _value(self, option: Option, spelling: str, words: Iterator[str]) -> str:
        if option.value_count == 0:
            return "off" if spelling in option.negative else "on"
        taken = [word for _, word in zip(range(option.value_count), words, strict=False)]
        value = " ".join(taken)
        if len(taken) < option.value_count:
            reason: str | None = "expected value for argument"
        else:
            reason = complaint(option, value, self._device_names)
        if reason:
            raise RefusedError(
                f'error while handling argument "{spelling}": {reason}\n\n'
                f"usage:\n{option.usage}\n\n\nto show complete usage, run with -h\n"
            )
        return value
