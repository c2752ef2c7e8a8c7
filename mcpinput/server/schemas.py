"""Raw JSON Schemas of tools: checked when registered, exact when applied.

JSON Schema 2020-12 through the ``jsonschema`` library, which is imported when the first schema is compiled.

Rules

- Numbers are exact: 5.0 is an integer, true is no number, ``multipleOf`` is decided by digits.
- A ``$ref`` points to a schema within the schema, and to nothing else: no schema makes the server fetch anything
  (specification, ``basic/index``, "$ref Resolution"). Nested ``$id`` and ``$schema`` are refused.
- Checking takes a number of steps that is linear in the size of the arguments, and no more: schemas can be written that
  take exponential time, and the arguments are a stranger's (same page, "Composition-Keyword Resource Use"). A regular
  expression is one step, however long it takes.
- What is wrong is told by path and keyword. The value is not repeated: it is the client's own, and may be long.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from mcpinput.json import canonical_bytes, dump, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NAMES_ONLY: Final = frozenset({"required", "additionalProperties", "dependentRequired", "unevaluatedProperties"})
"""Keywords whose messages in the library name members, and show no value."""

# Where JSON Schema 2020-12 has schemas inside of a schema.
_SCHEMA: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_SCHEMA_LIST: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAP: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})

STEPS: Final = 20_000
STEPS_A_NODE: Final = 50
STEPS_A_SCHEMA: Final = 4
"""What checking arguments may take: so many steps, and for each value in them so many more, and so many for each schema
within the schema: a long list of alternatives is no attack."""

NESTED: Final = 150
"""Keywords that may be applied within one another. Each takes some frames of the stack, of which there are 1,000."""

_WHOLE: Final = frozenset({"const", "enum", "uniqueItems"})
"""Keywords that look at everything in a value."""

_SHOWN: Final = 200
"""Characters of a path, and of what is wrong there."""

_TOO_DEEP: Final = "nested too deeply to be checked"

_validator_class: Any = None
_check: Final = threading.local()  # steps left, and keywords nested, of the check that runs in this thread


class _GivenUp(Exception):
    """Checking takes too much; says what is too much."""


class CompiledSchema:
    """A schema that has been checked.

    Args:
        schema: The schema, a JSON object.
        name: What it describes, for error messages.

    Attributes:
        schema: The schema as JSON, for the list.

    Raises:
        TypeError: ``schema`` is no mapping.
        ValueError: Not valid by JSON Schema 2020-12, another dialect, a nested ``$id`` or ``$schema``, or a ``$ref``
            that points to no schema within the schema.
    """

    __slots__ = ("_steps_a_node", "_validator", "schema")

    def __init__(self, schema: Mapping[str, Any], name: str) -> None:
        if not isinstance(schema, Mapping):
            raise TypeError(f"{name} must be a mapping, not {type(schema).__name__}")
        # Written and read again: floats in it become the decimals that they were meant to be, and it is a copy.
        text = dump(dict(schema))
        exact: Any = parse(text)
        dialect = exact.get("$schema", _DIALECT)
        if not isinstance(dialect, str) or dialect.rstrip("#") != _DIALECT:
            raise ValueError(f"{name}: only JSON Schema 2020-12 is supported ($schema must be absent or {_DIALECT})")
        cls = _exact_validator()
        import jsonschema
        import referencing.jsonschema

        # Without these two the library has no cause to change the validator or the base of references on the way.
        bare = {key: value for key, value in exact.items() if key not in ("$schema", "$id")}
        try:
            cls.check_schema(json.loads(text))  # as floats, which is what the library calls numbers
            schemas = _check_schemas(bare, name)
        except jsonschema.SchemaError as error:
            raise ValueError(f"{name}: not a valid JSON Schema at {error.json_path}: {error.message}") from None
        except (OverflowError, RecursionError):
            raise ValueError(f"{name}: nested too deeply, or has a pattern that is too large") from None
        self._steps_a_node: Final = STEPS_A_NODE + STEPS_A_SCHEMA * schemas
        self.schema: Final[dict[str, Any]] = exact
        # A registry of this schema alone: what is not in it is not to be had. Crawled, or each anchor would be looked
        # for in the whole schema whenever it is followed.
        resource = referencing.jsonschema.DRAFT202012.create_resource(bare)
        registry = referencing.Registry().with_resource("", resource).crawl()
        self._validator: Final = cls(bare, registry=registry, _resolver=registry.resolver())

    def problems(self, value: object, limit: int = 5) -> list[str]:
        """What is wrong with a value, at most ``limit`` lines such as ``$.price: must be of type number``."""
        found: list[str] = []
        try:
            value, weight = _unspelled(value)
            _check.steps = STEPS + self._steps_a_node * weight
            _check.nested = 0
            for error in self._validator.iter_errors(value):
                found.append(f"{_shortened(error.json_path)}: {_shortened(_problem(error))}")
                if len(found) == limit:
                    break
        except (_GivenUp, RecursionError) as error:
            found.append(f"$: {error if isinstance(error, _GivenUp) else _TOO_DEEP}")
        except ValueError:  # the library spells numbers out, and the process may refuse to spell long integers
            found.append("$: has a value that does not fit")
        return found


# The library writes the value into every message that it makes, also at each level of a recursive schema: that must not
# take longer the larger the value is.


class _Object(dict[str, Any]):
    __slots__ = ("weight",)
    weight: int

    def __repr__(self) -> str:
        return "{...}"


class _Array(list[Any]):
    __slots__ = ("weight",)
    weight: int

    def __repr__(self) -> str:
        return "[...]"


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "'...'"


def _unspelled(value: Any) -> tuple[Any, int]:
    """An equal tree whose repr is short, and its weight: the values in it, long text counting for more."""
    if isinstance(value, str):
        return _Text(value), 1 + len(value) // 16
    tree: _Object | _Array
    if isinstance(value, dict):
        members = {name: _unspelled(member) for name, member in value.items()}
        tree = _Object({name: member for name, (member, _) in members.items()})
        tree.weight = 1 + sum(weight for _, weight in members.values())
    elif isinstance(value, list):
        items = [_unspelled(item) for item in value]
        tree = _Array(item for item, _ in items)
        tree.weight = 1 + sum(weight for _, weight in items)
    else:
        return value, 1
    return tree, tree.weight


def _problem(error: Any) -> str:
    if error.validator is None:  # the schema there is false
        return "has a value that is not allowed"
    if error.validator in _NAMES_ONLY:
        message: str = error.message
        return message
    if error.validator == "type":
        types = error.validator_value
        return f"must be of type {types if isinstance(types, str) else ' or '.join(types)}"
    return f"must satisfy {error.validator}: {dump(error.validator_value).decode()}"


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _check_schemas(schema: dict[str, Any], name: str) -> int:
    """Checks what a valid schema may still not have, references above all; answers the number of schemas within it."""
    positions = list(_positions(schema, ""))
    pointers = {pointer for pointer, _ in positions}
    objects = [(pointer, position) for pointer, position in positions if isinstance(position, dict)]
    anchors = {position.get(keyword) for _, position in objects for keyword in ("$anchor", "$dynamicAnchor")}
    for pointer, position in objects:
        where = f"{name}: #{pointer}"
        for keyword in ("$id", "$schema"):
            if keyword in position:
                raise ValueError(f"{where}/{keyword} is not supported; only the whole schema may have it")
        try:
            re.compile("|".join(position.get("patternProperties", ())))  # the library joins them so
        except re.error as error:
            raise ValueError(f"{where}/patternProperties: the patterns cannot stand together: {error}") from None
        for keyword in ("$ref", "$dynamicRef"):
            if keyword not in position:
                continue
            reference = position[keyword]
            if not isinstance(reference, str) or not reference.startswith("#"):
                raise ValueError(f"{where}/{keyword} must point into the schema itself (start with '#')")
            target = unquote(reference[1:])
            if target not in (anchors if target and not target.startswith("/") else pointers):
                raise ValueError(f"{where}/{keyword} points to no schema within this one ({reference})")
    return len(positions)


def _positions(schema: object, pointer: str) -> Iterator[tuple[str, object]]:
    """Every schema within a schema, itself included, with its JSON pointer (RFC 6901)."""
    yield pointer, schema
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        here = f"{pointer}/{key}"
        if key in _SCHEMA:
            yield from _positions(value, here)
        elif key in _SCHEMA_LIST:
            for index, item in enumerate(value):
                yield from _positions(item, f"{here}/{index}")
        elif key in _SCHEMA_MAP:
            for name, member in value.items():
                yield from _positions(member, f"{here}/{name.replace('~', '~0').replace('/', '~1')}")


# ---- exact keywords ----


def _exact_validator() -> Any:
    global _validator_class
    if _validator_class is None:
        import jsonschema

        base: Any = jsonschema.Draft202012Validator
        types = base.TYPE_CHECKER
        for name, is_type in (("boolean", _is_boolean), ("integer", _is_integer), ("number", _is_number)):
            types = types.redefine(name, is_type)
        extend: Any = jsonschema.validators.extend  # its stub has no types
        keywords = {**base.VALIDATORS, "multipleOf": _multiple_of, "uniqueItems": _unique_items}
        counted = {name: _counted(name, keyword) for name, keyword in keywords.items()}
        _validator_class = extend(base, counted, type_checker=types)
        _validator_class.evolve = _counted_evolve(_validator_class.evolve)
    return _validator_class


# The library has no limit of its own. It comes through one of these three whenever it goes on to a value, a schema or
# an alternative: a keyword is applied, a validator is made for another schema, and (looking for what was evaluated) it
# asks whether a schema is a boolean.


def _take(steps: int) -> None:
    _check.steps -= steps
    if _check.steps < 0:
        raise _GivenUp("too complex to be checked")


def _counted(name: str, keyword: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    """A keyword that takes steps whenever it is applied: more for what has more values in it."""

    def apply(validator: object, value: object, instance: object, schema: object) -> Iterator[Any]:
        steps = 1
        if isinstance(instance, (_Object, _Array)):
            if name in _WHOLE:
                steps += instance.weight
            elif name.startswith("unevaluated"):  # the library looks each member up in a list of those evaluated
                steps += len(instance) ** 2 // 100
            else:
                steps += len(instance) // 8
        _take(steps)
        if _check.nested == NESTED:
            raise _GivenUp(_TOO_DEEP)
        _check.nested += 1
        try:
            yield from keyword(validator, value, instance, schema) or ()
        finally:
            _check.nested -= 1

    return apply


def _counted_evolve(evolve: Callable[..., Any]) -> Callable[..., Any]:
    def counted(self: object, **changes: Any) -> Any:
        _take(1)
        return evolve(self, **changes)

    return counted


def _is_boolean(checker: object, value: object) -> bool:
    _take(1)
    return isinstance(value, bool)


def _is_number(checker: object, value: object) -> bool:
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def _is_integer(checker: object, value: object) -> bool:
    if isinstance(value, Decimal):
        # By its digits: expanding 1E+10000 to an int would be work for nothing.
        _, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            return False
        return exponent >= 0 or not any(digits[max(0, len(digits) + exponent) :])
    return isinstance(value, int) and not isinstance(value, bool)


def _unique_items(validator: object, unique: object, value: object, schema: object) -> Iterator[Any]:
    from jsonschema import ValidationError

    if unique and isinstance(value, list) and len({canonical_bytes(item) for item in value}) != len(value):
        yield ValidationError("has equal items")


def _multiple_of(validator: object, factor: Any, value: Any, schema: object) -> Iterator[Any]:
    from jsonschema import ValidationError

    if _is_number(None, value) and not _divides(Decimal(factor), Decimal(value)):
        yield ValidationError(f"is not a multiple of {factor}")


def _divides(factor: Decimal, value: Decimal) -> bool:
    """Exactly, by digits and exponents: no power of ten is expanded further than the digits that are there."""
    divisor, divisor_exponent = _coefficient(factor)
    number, exponent = _coefficient(value)
    if exponent >= divisor_exponent:
        return number * pow(10, exponent - divisor_exponent, divisor) % divisor == 0
    shift = divisor_exponent - exponent
    if number == 0:
        return True
    if shift > len(value.as_tuple().digits):
        return False
    return bool(number % (divisor * 10**shift) == 0)


def _coefficient(number: Decimal) -> tuple[int, int]:
    _, digits, exponent = number.as_tuple()
    coefficient = 0
    for digit in digits:
        coefficient = coefficient * 10 + digit
    return coefficient, int(exponent)
