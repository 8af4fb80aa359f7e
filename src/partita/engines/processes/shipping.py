"""What goes to workers: what can be imported by its name, what a script or notebook made in place as a whole.

cloudpickle does that for functions and classes. Types of ``msgspec`` it does not make again, because their fields are
fixed when they are made; here they are made in two steps: the fields, and then all that may refer to the type.

With every piece of work goes what this program has registered, so that a worker knows the same components.
"""

from __future__ import annotations

import functools
import inspect
import io
import operator
import pickle
import sys
import types
import typing
import uuid
import weakref
from collections.abc import Callable
from typing import Any

import msgspec

from partita.engines.processes.replies import Reply, reply_of
from partita.ground import registry
from partita.ground.errors import MissingExtraError
from partita.ground.registry import Added, given, replace

#: Types that were sent, by what both sides call them: what comes back is of the type that was sent.
_sent: weakref.WeakKeyDictionary[type[Any], str] = weakref.WeakKeyDictionary()
_known: weakref.WeakValueDictionary[str, type[Any]] = weakref.WeakValueDictionary()
#: Those of them that are no more to be filled.
_complete: weakref.WeakSet[type[Any]] = weakref.WeakSet()

#: What a structure's type is made with, beside its fields.
_SWITCHES = (
    *("frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults"),
    *("forbid_unknown_fields", "weakref", "dict", "cache_hash", "tag", "tag_field"),
)
_CHECK = "__post_init__"


def dumps(value: Any) -> bytes:
    """A value as bytes."""
    with io.BytesIO() as file:
        _pickler()(file).dump(value)
        return file.getvalue()


def loads(data: bytes) -> Any:
    """The value of bytes."""
    return pickle.loads(data)


@functools.cache
def _pickler() -> Any:
    try:
        from cloudpickle import Pickler
    except ImportError as error:
        raise MissingExtraError("cloudpickle", "parallel") from error

    class StructPickler(Pickler):  # type: ignore[misc]
        """As cloudpickle's, and structures' types that cannot be imported are made again."""

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, type(msgspec.Struct)) and not _importable(obj):
                return _reduced(obj)
            return super().reducer_override(obj)

    return StructPickler


def _importable(kind: type[Any]) -> bool:
    """Whether another process finds a type by its name."""
    module = sys.modules.get(kind.__module__)
    if module is None or kind.__module__ == "__main__":
        return False
    try:
        return operator.attrgetter(kind.__qualname__)(module) is kind
    except AttributeError:
        return False


def _reduced(kind: type[Any]) -> tuple[Any, ...]:
    """How a structure's type is made again: the fields of its own first, then everything else that it has."""
    identity = _sent.setdefault(kind, uuid.uuid4().hex)
    _known[identity] = kind
    _complete.add(kind)
    own = vars(kind).get("__annotations__", {})
    defaults: dict[str, dict[str, Any]] = {}
    for field in msgspec.structs.fields(kind):
        if field.name in own:
            said: dict[str, Any] = {
                "default": field.default,
                "default_factory": field.default_factory,
                "name": field.encode_name,
            }
            defaults[field.name] = {key: value for key, value in said.items() if value is not msgspec.NODEFAULT}
    asked = inspect.signature(kind).parameters
    config = {name: getattr(kind.__struct_config__, name) for name in _SWITCHES}
    config["kw_only"] = any(asked[name].kind is inspect.Parameter.KEYWORD_ONLY for name in defaults)
    config["tag"] = config["tag"] if config["tag_field"] else None
    made = kind.__name__, kind.__qualname__, kind.__module__, kind.__bases__, defaults, config, _CHECK in vars(kind)
    return _make, (identity, *made), _state_of(kind, own), None, None, _fill


def _make(
    identity: str,
    name: str,
    qualified: str,
    module: str,
    bases: tuple[type[Any], ...],
    defaults: dict[str, dict[str, Any]],
    config: dict[str, Any],
    checks: bool,
) -> type[Any]:
    """A structure's type with its fields alone; the one that there is if it was sent before."""
    if identity in _known:
        return _known[identity]
    make_field: Any = msgspec.field
    namespace: dict[str, Any] = {
        "__module__": module,
        "__qualname__": qualified,
        "__annotations__": dict.fromkeys(defaults, Any),
    }
    namespace |= {field: make_field(**said) for field, said in defaults.items()}
    held: list[Any] = []
    if checks:
        # The check is part of the type from the beginning; what it does may refer to the type, and comes later.
        namespace[_CHECK] = lambda self: vars(held[0])[_CHECK](self)
    make: Any = type(msgspec.Struct)
    kind: type[Any] = make(name, bases, namespace, **config)
    held.append(kind)
    _sent[kind] = identity
    _known[identity] = kind
    return kind


def _state_of(kind: type[Any], own: dict[str, Any]) -> dict[str, Any]:
    """What a structure's type has beside its fields."""
    kept = {
        name: value
        for name, value in vars(kind).items()
        if not isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))
        and name not in ("__module__", "__qualname__", "__annotations__", "__slots__", "__dict__", "__weakref__")
    }
    try:
        # As text they would be looked up where the worker has no names of this program.
        hints = typing.get_type_hints(kind, include_extras=True)
    except NameError:
        hints = own
    return {**kept, "__annotations__": {name: hints.get(name, hint) for name, hint in own.items()}}


def _fill(kind: type[Any], state: dict[str, Any]) -> None:
    """The second step; a type that is complete stays as it is."""
    if kind not in _complete:
        _complete.add(kind)
        for name, value in state.items():
            setattr(kind, name, value)


#: What was registered when it was packed last, and packed.
_packed: tuple[tuple[Added, ...], bytes] = ((), b"")


def shipped() -> bytes:
    """What this program has registered, as ``take`` reads it; empty for nothing."""
    global _packed
    now = given()
    if now is not _packed[0]:
        _packed = now, dumps(now) if now else b""
    return _packed[1]


#: What was taken last.
_taken = b""


def take(components: bytes) -> None:
    """Have what the program that asks has registered, and nothing else. Its own process has told what is wrong."""
    global _taken
    registry.tell = lambda text: None
    if components != _taken:
        replace(loads(components) if components else ())
        _taken = components


def packed_work(function: Callable[..., Any], value: Any) -> tuple[bytes, bytes]:
    """A function and what it is asked of, and what is registered, for ``done_there``."""
    return shipped(), dumps((function, value))


def done_there(components: bytes, work: bytes) -> bytes:
    """Do such work; the reply as bytes. What it comes to and cannot be sent is an error of it."""
    reply = reply_of(_do, components, work)
    return dumps(reply) if reply.error is not None else _packed_reply(reply)


def _do(components: bytes, work: bytes) -> Any:
    take(components)
    function, value = loads(work)
    return function(value)


def _packed_reply(reply: Reply[Any]) -> bytes:
    found = reply_of(dumps, reply)
    return dumps(found) if found.value is None else found.value
