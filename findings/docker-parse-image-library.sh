#!/bin/bash
# npm docker-parse-image 3.0.1: on other registries too, a repository of one component gets "library/".
#
# Only Docker Hub has the namespace library; reg.example.org/app is a repository of its own, as the docker command and
# distribution/reference read it. "fullname" is another repository. Four components are no image at all.
# Seen: reg.example.org:443/library/app:1 for reg.example.org:443/app:1, null for reg.example.org/a/b/c/d:1
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts docker-parse-image@3.0.1 >install.log

cat >try.cjs <<'END'
const parse = require('docker-parse-image');

const one = parse('reg.example.org:443/app:1').fullname;
const four = parse('reg.example.org/a/b/c/d:1');
console.log('docker-parse-image 3.0.1: reg.example.org:443/app:1 is', one);
console.log('reg.example.org/a/b/c/d:1 is', four);
process.exitCode = one === 'reg.example.org:443/library/app:1' && four === null ? 0 : 1;
END
node try.cjs
