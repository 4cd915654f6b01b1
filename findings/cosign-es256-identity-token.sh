#!/bin/bash
# cosign v3.1.3: an ID token signed with ES256 is taken for the name of a file if it is passed as text.
#
# --identity-token accepts a token or the path of one. cosign counts text as a token only if its algorithm is RS256, which is what the
# issuers of the public Sigstore use. Zitadel, Keycloak and others can sign with ES256: then only a file works.
# Seen: RS256 as text, as a file, and ES256 as a file reach Fulcio; ES256 as text fails with "open eyJ…".
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
GOFLAGS='' GOWORK=off CGO_ENABLED=0 GOBIN=$dir go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3

cat >token.py <<'END'
import base64, json, subprocess, sys, time

algorithm = sys.argv[1]


def text(b):
    return base64.urlsafe_b64encode(b).rstrip(b"=").decode()


options = {"RS256": ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"], "ES256": ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]}
subprocess.run(["openssl", "genpkey", "-out", "key.pem", "-algorithm", *options[algorithm]], check=True, stderr=subprocess.DEVNULL)
now = int(time.time())
claims = {"iss": "https://login.example.org", "sub": "ci", "aud": "sigstore", "email": "ci@example.org", "email_verified": True, "iat": now, "exp": now + 600}
signed = text(json.dumps({"alg": algorithm, "typ": "JWT"}).encode()) + "." + text(json.dumps(claims).encode())
signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", "key.pem"], input=signed.encode(), capture_output=True, check=True).stdout
if algorithm == "ES256":  # openssl writes both numbers in ASN.1, a token has 32 bytes of each
    first = 4 + signature[3]
    numbers = signature[4:first], signature[first + 2 :]
    signature = b"".join(int.from_bytes(n, "big").to_bytes(32, "big") for n in numbers)
print(signed + "." + text(signature), end="")
END

echo content >blob
reaches() { # Fulcio, which isn't there
	./cosign sign-blob --yes --use-signing-config=false --fulcio-url http://127.0.0.1:1 --tlog-upload=false \
		--identity-token "$1" --bundle bundle.json blob >out 2>&1 || true
	grep -q '127.0.0.1:1/api/v2/signingCert.*connection refused' out
}
for algorithm in RS256 ES256; do
	python3 token.py "$algorithm" >"$algorithm.jwt"
	reaches "$algorithm.jwt" || { echo "$algorithm as a file doesn't reach Fulcio"; exit 1; }
done
reaches "$(<RS256.jwt)" || { echo "RS256 as text doesn't reach Fulcio"; exit 1; }
if reaches "$(<ES256.jwt)" || ! grep -q 'getting id token: open eyJ' out; then
	echo "the behavior has changed: ES256 as text"
	exit 1
fi
echo "cosign v3.1.3: RS256 as text and file, ES256 as a file: asks Fulcio; ES256 as text: getting id token: open eyJ…"
