#!/bin/bash
# PyPI docker 7.2.0: a host in capital letters without a dot counts as a namespace of Docker Hub.
#
# Repositories are lower case, so distribution/reference, and the docker command, take the first component of REGISTRY/app
# as a domain. The SDK looks for a dot or a colon only: it would send Docker Hub's login for an image of REGISTRY.
# parse_repository_tag of NAME:TAG@DIGEST also leaves the tag in the name.
# Seen: ('docker.io', 'REGISTRY/app'), ('reg.example.org/app:1', 'sha256:…')
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check docker==7.2.0

cat >"$dir/try.py" <<'END'
import sys
from docker.auth import resolve_repository_name
from docker.utils import parse_repository_tag

digest = "sha256:" + "a" * 64
capital = resolve_repository_name("REGISTRY/app")
dotted = resolve_repository_name("REGISTRY.example/app")
both = parse_repository_tag("reg.example.org/app:1@" + digest)
print("docker 7.2.0: REGISTRY/app is", capital, "and REGISTRY.example/app", dotted)
print("a tag and a digest:", both)
sys.exit(0 if capital == ("docker.io", "REGISTRY/app") and dotted[0] == "REGISTRY.example" and both == ("reg.example.org/app:1", digest) else 1)
END
"$dir/venv/bin/python" "$dir/try.py"
