"""One place that says what a text is: a generator's short form, a file of some format, or a cluster's short form."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from partita.ground.errors import FormatError, InputError
from partita.nouns.cluster import Cluster
from partita.nouns.topology.generators import FAMILIES
from partita.nouns.topology.generators.generator import TopologyGenerator
from partita.nouns.topology.grammar import cut_options
from partita.nouns.topology.importers import FORMATS
from partita.nouns.topology.importers.importer import TopologyImporter
from partita.nouns.topology.importers.text import read_text_file
from partita.nouns.topology.topology import Topology, of_cluster

#: Endings of partita's own cluster files.
_OWN = (".toml", ".json")

#: A text that ends so is a file, also if there is none.
_FILE = re.compile(r".*(\.(toml|json|txt|xml|csv|tsv|conf|ya?ml|log)|[/\\][^:]*)", re.IGNORECASE | re.DOTALL)


def find_generator(name: str) -> TopologyGenerator | None:
    """The family with a name; case does not matter, and underscores are hyphens."""
    wanted = name.strip().lower().replace("_", "-")
    return FAMILIES.get(wanted)


def find_importer(name: str) -> TopologyImporter | None:
    """The format with a name."""
    return FORMATS.get(name.strip().lower())


def topology(text: str | Path | Topology | Cluster) -> Topology:
    """The topology of a generator's short form, of a file, or of a cluster's short form; itself if it is one.

    Raises ``FormatError`` if a file is damaged or of no known format; ``InputError`` if the text is malformed, or a
    name, size or option is unknown or out of range.
    """
    found = _read(text)
    return of_cluster(found) if isinstance(found, Cluster) else found


def read_cluster(text: str | Path | Topology | Cluster) -> Cluster:
    """The cluster of whatever ``topology`` takes; links of short forms and cluster files are kept as they are.

    Raises ``FormatError`` if a file is damaged or of no known format; ``InputError`` if the text is malformed, a name,
    size or option is unknown or out of range, or the devices are not known.
    """
    found = _read(text)
    return found if isinstance(found, Cluster) else found.cluster()


def _read(text: str | Path | Topology | Cluster) -> Topology | Cluster:
    if isinstance(text, (Topology, Cluster)):
        return text
    if not isinstance(text, (str, Path)):
        raise InputError(
            f"{type(text).__name__} is no cluster; give a short form such as '4xA100-80GB', a file's path, or a Cluster"
        )
    if isinstance(text, Path) or os.path.isfile(text):
        return _file(str(text), ())
    compact = "".join(text.split())
    body, options = cut_options(compact)
    name, _, size = body.partition(":")
    generator = find_generator(name)
    if generator is not None:
        return generator.make(compact, size, options)
    path, given = cut_options(text)
    if os.path.isfile(path) or _FILE.fullmatch(path):
        return _file(path, given)
    if given:
        raise InputError(f"{text!r}: {body!r} is neither a file nor one of {FAMILIES.known}")
    try:
        return Cluster.from_spec(text)
    except InputError as error:
        near = difflib.get_close_matches(name.lower(), [found.name for found in FAMILIES], n=1, cutoff=0.75)
        raise InputError(f"{error}; or is it the topology {near[0]}?") if near else error from None


def _file(path: str, options: tuple[tuple[str, str], ...]) -> Topology | Cluster:
    """A file of the format that its ending or its content says."""
    if path.lower().endswith(_OWN):
        if options:
            raise InputError(f"{path} is a cluster file, which takes no options; leave {options[0][0]}=… out")
        return Cluster.read(path)
    source = read_text_file(path)
    # Those that were added come first: they take no file that is like an example of the others.
    importer = next((found for found in (*FORMATS.added(), *FORMATS.listed()) if found.recognises(source)), None)
    if importer is not None:
        return importer.load(source, options)
    try:
        return Cluster.read(path)
    except FormatError as error:
        raise FormatError(
            f"{path} is neither of a known format ({FORMATS.known}) nor a cluster file: {error}"
        ) from None
