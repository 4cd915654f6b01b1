package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// SignatureHeader is the header of a signed body: "sha256=" and the HMAC-SHA256 of
// the body in hex, as GitHub and our registry send it.
const SignatureHeader = "X-Hub-Signature-256"

// Signed tells whether the signature was made of the body by somebody who knows the
// secret. It compares in constant time.
func Signed(signature string, secret, body []byte) bool {
	sum, ok := strings.CutPrefix(signature, "sha256=")
	got, err := hex.DecodeString(sum)
	if !ok || err != nil {
		return false
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return hmac.Equal(got, mac.Sum(nil))
}
