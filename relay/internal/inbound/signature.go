package inbound

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/refusal"
)

// Headers of signed bodies, keyed with a shared secret. hubSignature is "sha256=" and the HMAC-SHA256 of the body in
// hex, as GitHub sends it. timedSignature is "t=<unix seconds>,v1=" and that of "<t>.<body>", as our registry sends it
// as well: a recorded request cannot be sent again later.
const (
	hubSignature   = "X-Hub-Signature-256"
	timedSignature = "X-Slipway-Signature"
)

// maxSkew is how far the time of a signature may be from now.
const maxSkew = 5 * time.Minute

// checkSignature refuses a body that was not signed with the secret; without a secret it takes all. Where there is a
// signature with a time, that one counts.
func checkSignature(r Request, secret []byte) error {
	if len(secret) == 0 {
		return nil
	}
	timed, hub := r.Header.Get(timedSignature), r.Header.Get(hubSignature)
	switch {
	case timed != "":
		return checkTimed(timed, secret, r)
	case hub == "":
		return unsigned("The body must be signed in the header " + hubSignature + " or " + timedSignature + ": give the registry's endpoint the secret of this relay's hook.registry.secret.")
	case !signedBody(hub, secret, r.Body):
		return unsigned(wrong(hubSignature))
	}
	return nil
}

func checkTimed(header string, secret []byte, r Request) error {
	at, sum, ok := strings.Cut(header, ",v1=")
	at, isTime := strings.CutPrefix(at, "t=")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if !ok || !isTime || err != nil {
		return unsigned("The header " + timedSignature + " must be t=<unix seconds>,v1=<HMAC-SHA256 of the time, a dot and the body, in hex>.")
	}
	if !sameSum(sum, secret, []byte(at+"."), r.Body) {
		return unsigned(wrong(timedSignature))
	}
	if skew := r.Now.Sub(time.Unix(seconds, 0)); skew > maxSkew || skew < -maxSkew {
		return unsigned("The signature in the header " + timedSignature + " was made at another time than now, by more than 5 minutes: the request was recorded and repeated, or a clock is wrong.")
	}
	return nil
}

func wrong(header string) string {
	return "The signature in the header " + header + " is not that of this body: the secret of the registry's endpoint and this relay's hook.registry.secret differ, or the body was changed on its way."
}

func unsigned(message string) error {
	return &refusal.Error{Kind: refusal.KindUnauthorized, Message: message}
}

// signedBody reports whether a hubSignature was made of the body with the secret.
func signedBody(signature string, secret, body []byte) bool {
	sum, ok := strings.CutPrefix(signature, "sha256=")
	return ok && sameSum(sum, secret, body)
}

// sameSum compares, in constant time, a sum in hex with that of the parts.
func sameSum(sum string, secret []byte, parts ...[]byte) bool {
	got, err := hex.DecodeString(sum)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, secret)
	for _, part := range parts {
		mac.Write(part)
	}
	return hmac.Equal(got, mac.Sum(nil))
}
