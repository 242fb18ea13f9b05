"""`json`: best.json itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tuner.report.best import shell_command

if TYPE_CHECKING:
    from tuner.report.exports.form import Served


class BestJson:
    """The document as the study has it; what the owner sets stands in the winner's command."""

    def write(self, served: Served) -> str:
        """The document, indented."""
        document = dict(served.document)
        winner = document["winner"]
        argv = [served.program, *served.words]
        if argv != winner["argv"]:
            command = shell_command(argv, winner["environment"])
            document["winner"] = {**winner, "argv": argv, "command": command}
            document["model"] = {**document["model"], "path": served.model_path}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
