"""Makes the JSON schemas that kubeconform reads, from files alone: from Kubernetes' own OpenAPI document and from folders of
CustomResourceDefinitions.

    schemas.py TARGET swagger.json [FOLDER…]

writes TARGET/<kind>-<group>-<version>.json, closed at every level, so that a field that Kubernetes does not know is an error.
"""

import json
import sys
from pathlib import Path

import yaml

# Types that Kubernetes describes as text although it also takes numbers.
NUMBER_OR_TEXT = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": ["string", "integer"],
    "io.k8s.apimachinery.pkg.api.resource.Quantity": ["string", "number"],
}
# YAML 1.1 gives a lone "=" a special meaning. Here it is plain text.
yaml.CSafeLoader.add_constructor("tag:yaml.org,2002:value", lambda loader, node: node.value)

KEPT = ("description", "enum", "required", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


def closed(schema, nullable=True):
    """`schema`, closed to fields that it does not name. Null is allowed, since Kubernetes treats it as absent."""
    if "$ref" in schema:
        reference = {"$ref": schema["$ref"]}
        return {"anyOf": [reference, {"type": "null"}]} if nullable else reference
    result = {key: schema[key] for key in KEPT if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        result["type"] = ["string", "integer", "null"] if nullable else ["string", "integer"]
        result.pop("pattern", None)
        return result
    if "type" in schema:
        result["type"] = [schema["type"], "null"] if nullable else schema["type"]
    if nullable and "enum" in result:
        result["enum"] = [*result["enum"], None]
    if "properties" in schema:
        required = schema.get("required", [])
        result["properties"] = {
            name: closed(field, nullable=name not in required) for name, field in schema["properties"].items()
        }
        result["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    elif isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = closed(schema["additionalProperties"])
    if "items" in schema:
        result["items"] = closed(schema["items"], nullable=False)
    return result


def references(value, found, definitions):
    """Adds to `found` the names of all definitions that `value` leads to."""
    if isinstance(value, dict):
        name = value.get("$ref", "").removeprefix("#/definitions/") if isinstance(value.get("$ref"), str) else ""
        if name and name not in found:
            found.add(name)
            references(definitions[name], found, definitions)
        for inner in value.values():
            references(inner, found, definitions)
    elif isinstance(value, list):
        for inner in value:
            references(inner, found, definitions)
    return found


def write(target, group, version, kind, schema, definitions):
    schema = dict(schema)
    properties = dict(schema["properties"])
    properties["apiVersion"] = {"enum": [f"{group}/{version}" if group else version]}
    properties["kind"] = {"enum": [kind]}
    schema["properties"] = properties
    schema["required"] = sorted({*schema.get("required", []), "apiVersion", "kind"})
    schema["definitions"] = {name: definitions[name] for name in sorted(references(properties, set(), definitions))}
    # The name that kubeconform builds from {{.ResourceKind}}{{.KindSuffix}}.
    parts = [kind.lower(), *([group.split(".")[0]] if group else []), version]
    (target / ("-".join(parts) + ".json")).write_text(json.dumps(schema))


def main():
    target, swagger, *folders = map(Path, sys.argv[1:])
    target.mkdir(parents=True, exist_ok=True)
    document = json.loads(swagger.read_text())["definitions"]
    definitions = {name: closed(schema, nullable=False) for name, schema in document.items()}
    definitions.update({name: {"type": types} for name, types in NUMBER_OR_TEXT.items()})
    for name, schema in document.items():
        kinds = schema.get("x-kubernetes-group-version-kind", [])
        # Request options belong to every group and are not resources.
        if len(kinds) == 1:
            write(target, kinds[0]["group"], kinds[0]["version"], kinds[0]["kind"], definitions[name], definitions)
    metadata = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    for path in sorted(path for folder in folders for path in folder.glob("*.yaml")):
        for resource in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            if not resource or resource.get("kind") != "CustomResourceDefinition":
                continue
            spec = resource["spec"]
            for version in spec["versions"]:
                schema = closed(version["schema"]["openAPIV3Schema"], nullable=False)
                # A CustomResourceDefinition does not describe the metadata that all resources share.
                schema["properties"]["metadata"] = {"$ref": f"#/definitions/{metadata}"}
                write(target, spec["group"], version["name"], spec["names"]["kind"], schema, definitions)
    print(f"{len(list(target.glob('*.json')))} schemas in {target}", file=sys.stderr)


main()
