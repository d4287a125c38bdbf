# SPDX-License-Identifier: Apache-2.0
"""Answers against the OpenAPI document: the part of JSON Schema that it uses."""
import json
import pathlib

PATH = pathlib.Path(__file__).resolve().parents[2] / "docs/openapi.json"
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def load():
    return json.loads(PATH.read_text())


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def problems(document, schema, value, where="answer"):
    """Sentences about what does not fit, the first few."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "oneOf" in schema:
        tried = [problems(document, one, value, where) for one in schema["oneOf"]]
        return [] if any(not one for one in tried) else min(tried, key=len)
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(is_type(value, name) for name in names):
        return [f"{where} is {str(value)[:40]!r}, must be {' or '.join(names)}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where} is {value!r}, must be one of {schema['enum']}")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        found += [f"{where} has no {key!r}" for key in schema.get("required", []) if key not in value]
        for key, one in value.items():
            if key in known:
                found += problems(document, known[key], one, f"{where}.{key}")
            elif schema.get("additionalProperties", True) is False:
                found.append(f"{where} has {key!r}, which is not in the document")
    if isinstance(value, list) and "items" in schema:
        for index, one in enumerate(value):
            found += problems(document, schema["items"], one, f"{where}[{index}]")
            if len(found) > 5:
                break
    return found[:6]
