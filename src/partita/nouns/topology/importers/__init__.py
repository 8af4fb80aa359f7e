"""The formats of files that say how devices are joined."""

from partita.ground.registry import Shelf
from partita.nouns.topology.importers.astra_sim import ASTRA_SIM
from partita.nouns.topology.importers.hwloc import HWLOC
from partita.nouns.topology.importers.importer import TopologyImporter
from partita.nouns.topology.importers.matrix_csv import MATRIX_CSV
from partita.nouns.topology.importers.nccl import NCCL
from partita.nouns.topology.importers.nvidia_smi import NVIDIA_SMI
from partita.nouns.topology.importers.slurm_conf import SLURM_CONF
from partita.nouns.topology.importers.slurm_yaml import SLURM_YAML
from partita.nouns.topology.importers.text import TextFile

#: Asked in this order whether a file is theirs.
IMPORTERS: tuple[TopologyImporter, ...] = (NVIDIA_SMI, NCCL, HWLOC, SLURM_YAML, ASTRA_SIM, SLURM_CONF, MATRIX_CSV)


class _TopologyFormats(Shelf[TopologyImporter]):
    """The formats, each of which knows its own files and no others."""

    def unfit(self, component: TopologyImporter) -> str:
        if component.name != component.name.strip().lower():
            return f"{component.name!r} cannot be asked for; use small letters"
        if not component.recognises(TextFile("example", component.example)):
            return "it does not recognise its own example"
        for other in IMPORTERS:
            if component.recognises(TextFile("example", other.example)):
                return f"it takes files of the format {other.name} for its own; let it recognise less"
        return ""


#: Those of the list and those that were added.
FORMATS = _TopologyFormats("topology format", TopologyImporter, lambda: IMPORTERS, ("name", "summary", "example"))
