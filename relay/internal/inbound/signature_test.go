package inbound

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/refusal"
)

// From GitHub's documentation, "Testing the webhook payload validation".
const (
	secret    = "It's a Secret to Everybody"
	body      = "Hello, World!"
	signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
)

func TestSignedBody(t *testing.T) {
	for _, tt := range []struct {
		name, signature, secret, body string
		want                          bool
	}{
		{"good", signature, secret, body, true},
		{"good, in capitals", "sha256=" + strings.ToUpper(signature[7:]), secret, body, true},
		{"another body", signature, secret, body + " ", false},
		{"another secret", signature, secret + " ", body, false},
		{"none", "", secret, body, false},
		{"another algorithm", strings.Replace(signature, "sha256", "sha1", 1), secret, body, false},
		{"without its algorithm", signature[7:], secret, body, false},
		{"nothing behind the algorithm", "sha256=", secret, body, false},
		{"cut off", signature[:len(signature)-2], secret, body, false},
		{"too long", signature + "00", secret, body, false},
		{"no hex", "sha256=zz", secret, body, false},
	} {
		if got := signedBody(tt.signature, []byte(tt.secret), []byte(tt.body)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestTimedSignature(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	sign := func(at int64, secret, body string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%d.%s", at, body)
		return fmt.Sprintf("t=%d,v1=%x", at, mac.Sum(nil))
	}
	good := sign(now.Unix(), secret, body)
	for _, tt := range []struct {
		name, timed, hub string
		want             string // part of the refusal, "" for none
	}{
		{"good", good, "", ""},
		{"good, the other is wrong", good, "sha256=00", ""},
		{"five minutes old", sign(now.Unix()-300, secret, body), "", ""},
		{"older", sign(now.Unix()-301, secret, body), signature, "another time than now"},
		{"from the future", sign(now.Unix()+301, secret, body), signature, "another time than now"},
		{"another secret", sign(now.Unix(), "another", body), signature, "not that of this body"},
		{"another body", sign(now.Unix(), secret, "Hello"), signature, "not that of this body"},
		{"another time than signed", strings.Replace(good, "t=18", "t=17", 1), signature, "not that of this body"},
		{"no time", strings.Replace(good, "t=", "", 1), signature, "must be t="},
		{"no sum", "t=1800000000", signature, "must be t="},
		{"no number", "t=now,v1=00", signature, "must be t="},
		{"neither", "", "", "must be signed"},
	} {
		r := Request{Header: http.Header{}, Body: []byte(body), Now: now}
		r.Header.Set(timedSignature, tt.timed)
		r.Header.Set(hubSignature, tt.hub)
		err := checkSignature(r, []byte(secret))
		if tt.want == "" && err != nil || tt.want != "" && (refusal.KindOf(err) != refusal.KindUnauthorized || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err := checkSignature(r, nil); err != nil {
			t.Errorf("%s, without a secret: %v", tt.name, err)
		}
	}
}
