"""Raw JSON Schemas of tools: checked when registered, exact when applied.

JSON Schema 2020-12 through the ``jsonschema`` library, which is imported when the first schema is compiled. Numbers
are exact: 5.0 is an integer, true is no number, ``multipleOf`` is decided by digits. Only local ``$ref`` is taken, so
that no schema makes the server fetch anything (specification, ``basic/index``, "$ref Resolution").
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from mcpinput.json import dump, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_validator_class: Any = None


class CompiledSchema:
    """A schema that has been checked.

    Args:
        schema: The schema, a JSON object.
        name: What it describes, for error messages.

    Raises:
        ValueError: Not valid by JSON Schema 2020-12, another dialect, or a ``$ref`` that leaves the schema or points to
            nothing.
    """

    __slots__ = ("_validator", "schema")

    def __init__(self, schema: Mapping[str, Any], name: str) -> None:
        # Written and read again: floats in it become the decimals that they were meant to be, and it is a copy.
        exact: Any = parse(dump(schema))
        if exact.get("$schema", _DIALECT).rstrip("#") != _DIALECT:
            raise ValueError(f"{name}: only JSON Schema 2020-12 is supported ($schema must be absent or {_DIALECT})")
        cls = _exact_validator()
        import jsonschema

        try:
            cls.check_schema(exact)
        except jsonschema.SchemaError as error:
            raise ValueError(f"{name}: not a valid JSON Schema at {error.json_path}: {error.message}") from None
        self.schema: Final[dict[str, Any]] = exact
        self._validator: Final = cls(exact)
        self._check_references(name)

    def _check_references(self, name: str) -> None:
        resolver = self._validator._resolver
        for path, reference in _references(self.schema, "$"):
            if not isinstance(reference, str) or not reference.startswith("#"):
                raise ValueError(f"{name}: {path} must point into the schema itself (start with '#')")
            try:
                resolver.lookup(reference)
            except Exception:  # the library has one exception for each way to point to nothing
                raise ValueError(f"{name}: {path} points to nothing ({reference})") from None

    def problems(self, value: object, limit: int = 5) -> list[str]:
        """What is wrong with a value, at most ``limit`` lines such as ``$.price: 'x' is not of type 'number'``."""
        found: list[str] = []
        try:
            for error in self._validator.iter_errors(value):
                message = error.message
                found.append(f"{error.json_path}: {message if len(message) <= 200 else message[:200] + '…'}")
                if len(found) == limit:
                    break
        except ValueError:  # the library spells the value out, and the process may refuse to spell long integers
            found.append("$: a value that is too long to be shown does not fit")
        return found


def _references(schema: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and not isinstance(value, dict):
                yield f"{path}.{key}", value
            elif key not in ("const", "enum", "default", "examples"):
                yield from _references(value, f"{path}.{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from _references(value, f"{path}[{index}]")


def _exact_validator() -> Any:
    global _validator_class
    if _validator_class is None:
        import jsonschema

        base = jsonschema.Draft202012Validator
        types = base.TYPE_CHECKER.redefine("integer", _is_integer).redefine("number", _is_number)
        extend: Any = jsonschema.validators.extend  # its stub has no types
        _validator_class = extend(base, {"multipleOf": _multiple_of}, type_checker=types)
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


def _multiple_of(validator: object, factor: Any, value: Any, schema: object) -> Iterator[Any]:
    from jsonschema import ValidationError

    if _is_number(None, value) and not _divides(Decimal(factor), Decimal(value)):
        yield ValidationError(f"not a multiple of {factor}")


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
