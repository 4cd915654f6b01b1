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

// timedSignature is the header of a signed request, keyed with a shared secret: "t=<unix seconds>,v1=…,v2=<HMAC-SHA256
// of "<t>.<Authorization>.<body>" in hex>". The time keeps a recorded request from being repeated later, Authorization
// keeps it from being repeated with the token of another application.
const timedSignature = "X-Slipway-Signature"

// maxSkew is how far the time of a signature may be from now.
const maxSkew = 5 * time.Minute

// secretOr returns the application's secret, or configured if it has none.
func (a App) secretOr(configured []byte) ([]byte, error) {
	if a.Secret == nil {
		return configured, nil
	}
	own, err := a.Secret()
	if len(own) == 0 && err == nil {
		return configured, nil
	}
	return own, err
}

// checkSignature refuses a request that isn't signed with the secret. Without a secret it accepts every request.
func checkSignature(r *Request, secret []byte) error {
	if len(secret) == 0 {
		return nil
	}
	header := r.Header.Get(timedSignature)
	if header == "" {
		return unsigned("The request must be signed in the header " + timedSignature + ": give the registry's endpoint the application's webhook secret, or that of this relay's hook.registry.secret.")
	}
	if authorization(r.Header.Get("Authorization")) == "" {
		return unsigned("The token of a signed request must be in the header Authorization, because the signature covers it.")
	}
	signature := map[string]string{}
	for _, part := range strings.Split(header, ",") {
		name, value, _ := strings.Cut(part, "=")
		signature[name] = value
	}
	seconds, err := strconv.ParseInt(signature["t"], 10, 64)
	if err != nil || signature["v2"] == "" {
		return unsigned("The header " + timedSignature + " must be t=<unix seconds>,v2=<HMAC-SHA256 of the time, a dot, the header Authorization, a dot and the body, in hex>.")
	}
	if !sameSum(signature["v2"], secret, signature["t"], ".", r.Header.Get("Authorization"), ".", string(r.Body)) {
		return unsigned("The signature in the header " + timedSignature + " is not that of this request: the secret of the registry's endpoint differs from the application's webhook secret, or from this relay's hook.registry.secret, or the token or the body was changed on its way.")
	}
	if skew := r.Now.Sub(time.Unix(seconds, 0)); skew > maxSkew || skew < -maxSkew {
		return unsigned("The signature in the header " + timedSignature + " was made at another time than now, by more than 5 minutes: the request was recorded and repeated, or a clock is wrong.")
	}
	return nil
}

func unsigned(message string) error {
	return &refusal.Error{Kind: refusal.KindUnauthorized, Message: message}
}

// sameSum compares, in constant time, a sum in hex with that of the parts.
func sameSum(sum string, secret []byte, parts ...string) bool {
	got, err := hex.DecodeString(sum)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, secret)
	for _, part := range parts {
		mac.Write([]byte(part))
	}
	return hmac.Equal(got, mac.Sum(nil))
}
