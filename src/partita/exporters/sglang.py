"""SGLang: a ``sglang.launch_server`` command for every unit."""

from __future__ import annotations

from partita.exporters.serve_script import ServeScript
from partita.exporters.sglang_arguments import SglangArguments
from partita.exporters.unit_places import PlacedUnit

#: Where units for decode ask those for prefill for caches, counted by unit.
_BOOTSTRAP = 8998


class Sglang(ServeScript):
    """A shell script of ``python3 -m sglang.launch_server`` commands; see ``SglangArguments``."""

    name = "sglang"
    summary = "SGLang: a launch command for every unit of a deployment"
    source = "https://docs.sglang.io/advanced_features/server_arguments.html; sglang/srt/server_args.py"
    engine = SglangArguments()
    program = ("python3", "-m", "sglang.launch_server")
    router = "python3 -m sglang_router.launch_router (https://docs.sglang.io/advanced_features/pd_disaggregation.html)"

    def listening(self, unit: PlacedUnit) -> list[str]:
        """Units for prefill have a port more."""
        if unit.group.role != "prefill":
            return []
        return ["--disaggregation-bootstrap-port", str(_BOOTSTRAP + unit.number)]
