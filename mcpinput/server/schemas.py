"""Raw JSON Schemas of tools: checked when registered, exact when applied.

JSON Schema 2020-12 through the ``jsonschema`` library, which is imported when the first schema is compiled.

Rules

- Numbers are exact: 5.0 is an integer, true is no number, ``multipleOf`` is decided by digits.
- Only a ``$ref`` within the schema is taken, so that no schema makes the server fetch anything (specification,
  ``basic/index``, "$ref Resolution").
- No argument makes checking fail or take more than linear time in its size where the schema does not: ``uniqueItems``
  compares canonical bytes, and arguments nested too deeply for a recursive schema are refused.
- What is wrong is told by path and keyword. The value is not repeated: it is the client's own, and may be long.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from mcpinput.json import canonical_bytes, dump, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NAMES_ONLY: Final = frozenset({"required", "additionalProperties", "dependentRequired", "unevaluatedProperties"})
"""Keywords whose messages in the library name members, and show no value."""

_validator_class: Any = None


class CompiledSchema:
    """A schema that has been checked.

    Args:
        schema: The schema, a JSON object.
        name: What it describes, for error messages.

    Raises:
        ValueError: Not valid by JSON Schema 2020-12, another dialect, a nested ``$id``, or a ``$ref`` that leaves the
            schema or points to nothing.
    """

    __slots__ = ("_validator", "schema")

    def __init__(self, schema: Mapping[str, Any], name: str) -> None:
        # Written and read again: floats in it become the decimals that they were meant to be, and it is a copy.
        exact: Any = parse(dump(schema))
        dialect = exact.get("$schema", _DIALECT)
        if not isinstance(dialect, str) or dialect.rstrip("#") != _DIALECT:
            raise ValueError(f"{name}: only JSON Schema 2020-12 is supported ($schema must be absent or {_DIALECT})")
        cls = _exact_validator()
        import jsonschema

        try:
            cls.check_schema(exact)
        except jsonschema.SchemaError as error:
            raise ValueError(f"{name}: not a valid JSON Schema at {error.json_path}: {error.message}") from None
        _check_references(exact, name)
        self.schema: Final[dict[str, Any]] = exact
        self._validator: Final = cls(exact)

    def problems(self, value: object, limit: int = 5) -> list[str]:
        """What is wrong with a value, at most ``limit`` lines such as ``$.price: must be of type number``."""
        found: list[str] = []
        try:
            for error in self._validator.iter_errors(_unspelled(value)):
                found.append(f"{error.json_path}: {_problem(error)}")
                if len(found) == limit:
                    break
        except RecursionError:
            found.append("$: nested too deeply to be checked")
        except ValueError:  # the library spells values out, and the process may refuse to spell long integers
            found.append("$: has a value that does not fit")
        return found


# The library writes the value into every message that it makes, also at each level of a recursive schema: that must not
# take longer the larger the value is.


class _Object(dict[str, Any]):
    def __repr__(self) -> str:
        return "{...}"


class _Array(list[Any]):
    def __repr__(self) -> str:
        return "[...]"


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "'...'"


def _unspelled(value: Any) -> Any:
    """An equal tree whose repr is short."""
    if isinstance(value, dict):
        return _Object({name: _unspelled(member) for name, member in value.items()})
    if isinstance(value, list):
        return _Array(map(_unspelled, value))
    return _Text(value) if isinstance(value, str) else value


def _problem(error: Any) -> str:
    if error.validator in _NAMES_ONLY:
        message: str = error.message
    elif error.validator == "type":
        types = error.validator_value
        message = f"must be of type {types if isinstance(types, str) else ' or '.join(types)}"
    else:
        message = f"must satisfy {error.validator}: {dump(error.validator_value).decode()}"
    return message if len(message) <= 200 else message[:200] + "…"


def _check_references(schema: dict[str, Any], name: str) -> None:
    import referencing.exceptions
    import referencing.jsonschema

    resource = referencing.jsonschema.DRAFT202012.create_resource(schema)
    base = schema.get("$id", "")
    resolver = referencing.Registry().with_resource(base, resource).resolver(base)
    for path, keyword, value in _keywords(schema, "$"):
        if keyword == "$id":
            raise ValueError(f"{name}: {path} is not supported; only the whole schema may have an $id")
        if not isinstance(value, str) or not value.startswith("#"):
            raise ValueError(f"{name}: {path} must point into the schema itself (start with '#')")
        try:
            resolver.lookup(value)
        except referencing.exceptions.Unresolvable:
            raise ValueError(f"{name}: {path} points to nothing ({value})") from None


_NAMED_SUBSCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


def _keywords(schema: object, path: str) -> Iterator[tuple[str, str, object]]:
    """Every reference, and every nested ``$id``, of a schema, with its path."""
    if isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from _keywords(value, f"{path}[{index}]")
    if not isinstance(schema, dict):
        return
    for key, value in schema.items():
        here = f"{path}.{key}"
        if key in ("$ref", "$dynamicRef") or (key == "$id" and path != "$"):
            yield here, key, value
        elif key in _NAMED_SUBSCHEMAS and isinstance(value, dict):
            for name, subschema in value.items():  # names here are the application's, not keywords
                yield from _keywords(subschema, f"{here}.{name}")
        elif key not in ("const", "enum", "default", "examples"):
            yield from _keywords(value, here)


# ---- exact keywords ----


def _exact_validator() -> Any:
    global _validator_class
    if _validator_class is None:
        import jsonschema

        base = jsonschema.Draft202012Validator
        types = base.TYPE_CHECKER.redefine("integer", _is_integer).redefine("number", _is_number)
        extend: Any = jsonschema.validators.extend  # its stub has no types
        exact = {"multipleOf": _multiple_of, "uniqueItems": _unique_items}
        _validator_class = extend(base, exact, type_checker=types)
    return _validator_class


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
