"""The formats of files that say how devices are joined."""

from partita.nouns.topology.importers.astra_sim import ASTRA_SIM
from partita.nouns.topology.importers.hwloc import HWLOC
from partita.nouns.topology.importers.importer import TopologyImporter
from partita.nouns.topology.importers.matrix_csv import MATRIX_CSV
from partita.nouns.topology.importers.nccl import NCCL
from partita.nouns.topology.importers.nvidia_smi import NVIDIA_SMI
from partita.nouns.topology.importers.slurm_conf import SLURM_CONF
from partita.nouns.topology.importers.slurm_yaml import SLURM_YAML

#: Asked in this order whether a file is theirs.
IMPORTERS: tuple[TopologyImporter, ...] = (NVIDIA_SMI, NCCL, HWLOC, SLURM_YAML, ASTRA_SIM, SLURM_CONF, MATRIX_CSV)
