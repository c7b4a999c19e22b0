"""Where a bundle comes from, and what it holds: ``PROVENANCE.json`` and an SPDX list of its files.

Both follow from the other files and the plan alone: no time, path or version of Python is in them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from openinfer.synth.c_host.platform_header import PLATFORM_NAME
from openinfer.synth.npy_harness import HEADER_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth.proof import Proof

PROVENANCE, SBOM = "PROVENANCE.json", "sbom.spdx.json"

_LICENSE = "Apache-2.0"
"""Of files that are the same in every bundle. What is written from a program and a model is as those are."""

_EPOCH = "1970-01-01T00:00:00Z"
"""SPDX wants a time; that of writing would make equal bundles differ."""


def with_provenance(
    plan: ExecutionPlan,
    files: Mapping[str, bytes],
    flags: Sequence[str],
    distribution: str,
    proof: Proof | None = None,
) -> dict[str, bytes]:
    """Return the files of a bundle with the two that describe them; ``distribution`` is that of the target."""
    distributions = ("openinfer-core", distribution)
    provenance = _provenance(plan, files, flags, distributions)
    if proof is not None:
        provenance["proof"] = _proof(proof)
    described = {**files, PROVENANCE: _bytes(provenance)}
    return {**described, SBOM: _bytes(_sbom(plan, described, distributions))}


def _proof(proof: Proof) -> dict[str, Any]:
    return {
        "analyser": proof.analyser,
        "version": proof.version,
        "options": list(proof.options),
        "form": proof.form,
        "alarms": [asdict(alarm) for alarm in proof.alarms],
    }


def _provenance(
    plan: ExecutionPlan, files: Mapping[str, bytes], flags: Sequence[str], distributions: Sequence[str]
) -> dict[str, Any]:
    return {
        "format": "openinfer-provenance",
        "version": 1,
        "generator": {name: version(name) for name in distributions},
        "target": plan.target,
        "device": "" if plan.arch is None else plan.arch.name,
        "options": {
            "prefix": plan.options.prefix,
            "project": plan.options.project,
            "threads": plan.options.threads,
        },
        "flags": list(flags),
        "program": {"sha256": plan.program_digest},
        "model": {
            "sha256": _weights_digest(plan),
            "tensors": [{"name": w.source, "type": str(w.type), "sha256": _sha256(w.data)} for w in plan.weights],
        },
        "licenses": {name: _license_of(name) for name in sorted(files)},
        "files": {name: {"sha256": _sha256(files[name]), "bytes": len(files[name])} for name in sorted(files)},
    }


def _weights_digest(plan: ExecutionPlan) -> str:
    """Return a digest of the data that the program uses, with their names and types."""
    digest = hashlib.sha256()
    for weight in plan.weights:
        digest.update(json.dumps([weight.source, str(weight.type), weight.data.nbytes]).encode("ascii"))
        digest.update(weight.data)
    return digest.hexdigest()


def _sbom(plan: ExecutionPlan, files: Mapping[str, bytes], distributions: Sequence[str]) -> dict[str, Any]:
    name = plan.options.prefix
    listed = [_spdx_file(number, file, files[file]) for number, file in enumerate(sorted(files), 1)]
    sums = sorted(hashlib.sha1(data, usedforsecurity=False).hexdigest() for data in files.values())
    code = hashlib.sha1("".join(sums).encode("ascii"), usedforsecurity=False).hexdigest()
    tools = [f"Tool: {each}-{version(each)}" for each in distributions]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{_sha256(code.encode('ascii'))}",
        "creationInfo": {"created": _EPOCH, "creators": tools},
        "packages": [
            {
                "SPDXID": "SPDXRef-Package",
                "name": name,
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": True,
                "packageVerificationCode": {"packageVerificationCodeValue": code},
                "licenseConcluded": "NOASSERTION",
                "licenseDeclared": "NOASSERTION",
                "licenseInfoFromFiles": sorted({_license_of(file) for file in files}),
                "copyrightText": "NOASSERTION",
            }
        ],
        "files": listed,
        "relationships": [
            _relationship("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Package"),
            *(_relationship("SPDXRef-Package", "CONTAINS", each["SPDXID"]) for each in listed),
        ],
    }


def _spdx_file(number: int, name: str, data: bytes) -> dict[str, Any]:
    sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    return {
        "SPDXID": f"SPDXRef-File-{number}",
        "fileName": f"./{name}",
        "checksums": [
            {"algorithm": "SHA1", "checksumValue": sha1},
            {"algorithm": "SHA256", "checksumValue": _sha256(data)},
        ],
        "licenseConcluded": _license_of(name),
        "licenseInfoInFiles": [_license_of(name)],
        "copyrightText": "NOASSERTION",
    }


def _relationship(of: str, kind: str, to: str) -> dict[str, str]:
    return {"spdxElementId": of, "relationshipType": kind, "relatedSpdxElement": to}


def _license_of(name: str) -> str:
    return _LICENSE if name in {HEADER_NAME, PLATFORM_NAME} else "NOASSERTION"


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def _bytes(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode("ascii")
