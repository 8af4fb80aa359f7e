"""One thread at a time builds or traces a model: both put functions of other libraries aside while they run."""

from __future__ import annotations

import threading

#: Held while anything of the process is not as it was. A trace may build, and a build may trace.
alone = threading.RLock()
