"""Hold manifests against the schemas of Kubernetes and of the Dask operator; unknown keys too.

Run by the Python of an environment with dask-kubernetes and kubernetes-validate, which do not go
together with all that the tests need. Reads YAML on stdin, prints what is wrong.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

CRDS = "operator/deployment/helm/dask-kubernetes-operator/crds"
GROUP = "kubernetes.dask.org/v1"


def closed(schema):
    """A schema that knows all keys of the objects whose keys it lists."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: closed(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict):
        parts.setdefault("additionalProperties", False)
    return parts


def custom_schema(kind):
    spec = find_spec("dask_kubernetes")
    file = Path(spec.origin).parent / CRDS / f"{kind.lower()}.yaml"
    definition = yaml.safe_load(file.read_text())
    (version,) = [v for v in definition["spec"]["versions"] if v["name"] == "v1"]
    schema = closed(version["schema"]["openAPIV3Schema"])
    known = ("apiVersion", "kind", "metadata", "spec")
    schema["properties"] = {key: schema["properties"].get(key, {}) for key in known}
    schema["additionalProperties"] = False
    return schema


def pods(value):
    """Descriptions of pods, wherever they are."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for part in value.values():
            yield from pods(part)


def wrong(document):
    if document["apiVersion"] != GROUP:
        yield from core_errors(document)
        return
    yield from custom_errors(document)
    metadata = document["metadata"]
    yield from core_errors({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    for pod in pods(document):
        shell = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}
        yield from core_errors(shell)


def custom_errors(document):
    validator = jsonschema.Draft202012Validator(custom_schema(document["kind"]))
    for error in validator.iter_errors(document):
        yield f"{error.json_path}: {error.message}"


def core_errors(document):
    try:
        kubernetes_validate.validate(document, "1.35", strict=True)
    except kubernetes_validate.ValidationError as error:
        yield f"{error.path}: {error.message}"


def main():
    problems = [
        f"{document['kind']} {document['metadata']['name']}: {problem}"
        for document in yaml.safe_load_all(sys.stdin)
        for problem in wrong(document)
    ]
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
