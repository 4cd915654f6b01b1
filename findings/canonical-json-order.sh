#!/bin/bash
# npm another-json 0.2.0 and PyPI canonicaljson 2.0.0: two libraries of Matrix write different canonical JSON.
#
# The specification sorts keys by Unicode code point, and signatures are made over the result. another-json sorts as
# JavaScript does, by UTF-16 code unit: U+10000 comes before U+FFFF, so a signature that one makes is wrong for the other.
# Seen: another-json puts U+10000 first, canonicaljson U+FFFF
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts another-json@0.2.0 >install.log
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check canonicaljson==2.0.0

python=$(venv/bin/python -c '
import canonicaljson, json
order = json.loads(canonicaljson.encode_canonical_json({"\U00010000": 1, "\uffff": 2, "a": 3}))
print(*("U+%04X" % ord(key) for key in order))')
node=$(node -e '
const text = require("another-json").stringify({"\u{10000}": 1, "\uffff": 2, "a": 3});
const order = [...text.matchAll(/"(.)"/gu)].map(found => found[1].codePointAt(0));
console.log(order.map(code => "U+" + code.toString(16).toUpperCase().padStart(4, "0")).join(" "))')
echo "canonicaljson 2.0.0: $python"
echo "another-json 0.2.0:  $node"
[ "$python" = "U+0061 U+FFFF U+10000" ] && [ "$node" = "U+0061 U+10000 U+FFFF" ]
