package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
)

func TestSignature(t *testing.T) {
	const secret, body, auth = "It's a Secret to Everybody", "Hello, World!", "Bearer Atoken"
	now := time.Unix(1_800_000_000, 0)
	sign := func(at int64, secret, auth, body string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%d.%s.%s", at, auth, body)
		return fmt.Sprintf("t=%d,v1=00,v2=%x", at, mac.Sum(nil))
	}
	good := sign(now.Unix(), secret, auth, body)
	for _, tt := range []struct {
		name, signature, auth string
		want                  string // part of the refusal, "" for none
	}{
		{"good", good, auth, ""},
		{"good, in capitals", strings.Replace(good, good[len(good)-8:], strings.ToUpper(good[len(good)-8:]), 1), auth, ""},
		{"five minutes old", sign(now.Unix()-300, secret, auth, body), auth, ""},
		{"older", sign(now.Unix()-301, secret, auth, body), auth, "differs from this relay"},
		{"from the future", sign(now.Unix()+301, secret, auth, body), auth, "differs from this relay"},
		{"another secret", sign(now.Unix(), "another", auth, body), auth, "does not match this request"},
		{"another body", sign(now.Unix(), secret, auth, "Hello"), auth, "does not match this request"},
		{"another application's token", good, "Bearer Aother", "does not match this request"},
		{"no token in Authorization", good, "", "must be in the header Authorization"},
		{"no token in a signed Authorization", sign(now.Unix(), secret, "Negotiate a", body), "Negotiate a", "must be in the header Authorization"},
		{"another time than signed", strings.Replace(good, "t=18", "t=17", 1), auth, "does not match this request"},
		{"cut off", good[:len(good)-2], auth, "does not match this request"},
		{"no hex", "t=1800000000,v2=zz", auth, "does not match this request"},
		{"no time", strings.Replace(good, "t=", "", 1), auth, "must be t="},
		{"without the token in it", strings.Replace(good, "v2=", "v3=", 1), auth, "must be t="},
		{"none", "", auth, "must be signed"},
	} {
		r := &protocol.Request{Request: &http.Request{Header: http.Header{}}, Body: []byte(body), Now: now}
		r.Header.Set(timedSignature, tt.signature)
		r.Header.Set("Authorization", tt.auth)
		err := checkSignature(r, secret)
		if tt.want == "" && err != nil || tt.want != "" && (refusal.KindOf(err) != refusal.KindUnauthorized || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err := checkSignature(r, ""); err != nil {
			t.Errorf("%s, without a secret: %v", tt.name, err)
		}
	}
}
