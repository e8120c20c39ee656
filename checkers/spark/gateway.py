"""Fewer calls to Java for the plans that pyspark builds there: what never changes is asked for once.

Each call of a function of `pyspark.sql.functions` asks Java for the class, then for the method, and then calls it; a
list travels element by element. A plan of the checkers takes tens of thousands of such calls, each a round trip between
two processes. Knows nothing of what is planned. What is kept belongs to one gateway, which outlives sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

from py4j import protocol
from py4j.java_gateway import GatewayClient, JavaClass, JavaMember, JavaObject
from pyspark.sql import SparkSession

KEPT = 4096
"""How many names and literals are kept; all that the checkers use are some hundreds."""

MOST_AT_ONCE = 10
"""How many elements `java.util.List.of` takes as arguments of their own."""

_FUNCTIONS = "org.apache.spark.sql.functions"
_WINDOW = "org.apache.spark.sql.expressions.Window"
_HELPERS = {
    "PythonUtils": "org.apache.spark.api.python.PythonUtils",
    "PythonSQLUtils": "org.apache.spark.sql.api.python.PythonSQLUtils",
}
_PLAIN = (str, int, type(None))


def shorten_calls(spark: SparkSession) -> None:
    """Make the calls of this session's gateway few. Once for a gateway; again changes nothing."""
    jvm, context = spark._jvm, spark.sparkContext
    assert jvm is not None
    assert context._gateway is not None
    if _FUNCTIONS in vars(jvm):
        return
    client = context._gateway._gateway_client
    functions = _Methods(_FUNCTIONS, client)
    for name in ("col", "lit"):
        setattr(functions, name, _remembered(_static(_FUNCTIONS, name, client)))
    known = {_FUNCTIONS: functions, "functions": functions, _WINDOW: _Methods(_WINDOW, client)}
    known |= {name: _Methods(whole, client) for name, whole in _HELPERS.items()}
    client.converters.insert(0, _ListConverter())
    # Found there, they are not looked for in Java.
    vars(jvm).update(known)


class _Methods(JavaClass):  # type: ignore[misc]
    """A Java class of which static methods alone are used: each is known by its name, without asking for it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        method = _static(self._fqn, name, self._gateway_client)
        setattr(self, name, method)
        return method


def _static(whole_name: str, method: str, client: GatewayClient) -> JavaMember:
    return JavaMember(method, None, protocol.STATIC_PREFIX + whole_name, client)


def _remembered(call: Callable[[Any], JavaObject]) -> Callable[[Any], JavaObject]:
    """The same, but one call for all that are about one plain value. Columns never change, so they can be shared."""

    @lru_cache(KEPT, typed=True)
    def once(value: Hashable) -> JavaObject:
        return call(value)

    def column(value: Any) -> JavaObject:
        return once(value) if isinstance(value, _PLAIN) else call(value)

    return column


class _ListConverter:
    """Python lists as Java ones in a few calls. Lists with None go by py4j's own way."""

    def can_convert(self, value: object) -> bool:
        return isinstance(value, list | tuple) and all(element is not None for element in value)

    def convert(self, value: Sequence[Any], client: GatewayClient) -> JavaObject:
        of = _static("java.util.List", "of", client)
        if len(value) <= MOST_AT_ONCE:
            return of(*value)
        whole = JavaClass("java.util.ArrayList", client)()
        for start in range(0, len(value), MOST_AT_ONCE):
            whole.addAll(of(*value[start : start + MOST_AT_ONCE]))
        return whole
