package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
)

// timedSignature is the header of a signed request, keyed with a shared secret: "t=<unix seconds>,v1=…,v2=<HMAC-SHA256
// of "<t>.<Authorization>.<body>" in hex>". The time keeps a recorded request from being repeated later, Authorization
// keeps it from being repeated with the token of another application.
const timedSignature = "X-Slipway-Signature"

// maxSkew is how far the time of a signature may be from now.
const maxSkew = 5 * time.Minute

// checkSignature refuses a request that isn't signed with the secret. Without a secret it accepts every request.
func checkSignature(r *protocol.Request, secret string) error {
	if secret == "" {
		return nil
	}
	header := r.Header.Get(timedSignature)
	if header == "" {
		return unsigned("The request must be signed in the header " + timedSignature + ": configure the registry's endpoint with the application's webhook secret, or with this relay's hook.registry.secret.")
	}
	if protocol.Authorization(r.Header.Get("Authorization")) == "" {
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
	if !hmac.Equal(unhex(signature["v2"]), sum(secret, signature["t"], ".", r.Header.Get("Authorization"), ".", string(r.Body))) {
		return unsigned("The signature in the header " + timedSignature + " does not match this request: the secret of the registry's endpoint differs from the application's webhook secret, or from this relay's hook.registry.secret, or the token or the body was changed in transit.")
	}
	if r.Now.Sub(time.Unix(seconds, 0)).Abs() > maxSkew {
		return unsigned("The time in the header " + timedSignature + " differs from this relay's clock by more than 5 minutes: the request was replayed, or a clock is wrong.")
	}
	return nil
}

func unsigned(message string) error {
	return &refusal.Error{Kind: refusal.KindUnauthorized, Message: message}
}

// sum returns the HMAC-SHA256 of the parts.
func sum(secret string, parts ...string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	for _, part := range parts {
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}

// unhex returns the bytes of a sum in hex, nil if it is none.
func unhex(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		return nil
	}
	return b
}

// hookSecret returns the application's secret, "" if it has none.
func hookSecret(app protocol.App) (string, error) {
	if app.Secret == nil {
		return "", nil
	}
	secret, err := app.Secret()
	return string(secret), err
}

// checkHMAC refuses a request whose header doesn't hold the HMAC-SHA256 of the body in hex, after the prefix. Without a
// webhook secret of the application it accepts every request.
func checkHMAC(r *protocol.Request, header, prefix string, app protocol.App) error {
	secret, err := hookSecret(app)
	if err != nil || secret == "" {
		return err
	}
	return checkBody(r, header, prefix, secret)
}

func checkBody(r *protocol.Request, header, prefix, secret string) error {
	given, found := strings.CutPrefix(r.Header.Get(header), prefix)
	switch {
	case !found, given == "":
		return unsigned("The application has a webhook secret, so the request must be signed with it in the header " + header + ".")
	case !hmac.Equal(unhex(given), sum(secret, string(r.Body))):
		return unsigned("The signature in the header " + header + " does not match this body: the webhook's secret and the application's webhook secret differ.")
	}
	return nil
}

// maxTimes is how many headers may hold the time of a signature.
const maxTimes = 8

// checkGrafana is checkHMAC for Grafana, whose signature covers a time, too, if the user names a header for it. The relay doesn't know the name.
func checkGrafana(r *protocol.Request, app protocol.App) error {
	const header = "X-Grafana-Alerting-Signature"
	secret, err := hookSecret(app)
	if err != nil || secret == "" {
		return err
	}
	given, tried := unhex(r.Header.Get(header)), 0
	for _, values := range r.Header {
		seconds, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || len(values[0]) < 9 || given == nil {
			continue
		}
		if tried++; tried > maxTimes {
			break
		}
		if !hmac.Equal(given, sum(secret, values[0], ":", string(r.Body))) {
			continue
		}
		if r.Now.Sub(time.Unix(seconds, 0)).Abs() > maxSkew {
			return unsigned("The time of the signature differs from this relay's clock by more than 5 minutes: the request was replayed, or a clock is wrong.")
		}
		return nil
	}
	return checkBody(r, header, "", secret)
}
