"""How devices are joined: generators of well-known topologies, and importers of what tools say about a machine."""

from partita.nouns.topology.read import topology as topology
from partita.nouns.topology.topology import Link as Link
from partita.nouns.topology.topology import Topology as Topology
