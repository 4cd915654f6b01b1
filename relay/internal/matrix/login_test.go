package matrix

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// stub is a client of a homeserver with fixed answers: "STATUS body" by method and path. It refuses all else as unrecognized.
func stub(t *testing.T, o Options, answers map[string]string) *Client {
	t.Helper()
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.Method+" "+strings.TrimPrefix(r.URL.Path, "/_matrix/client")]
		if !ok {
			answer = `404 {"errcode":"M_UNRECOGNIZED","error":"Unrecognized request"}`
		}
		status := http.StatusOK
		switch code, body, _ := strings.Cut(answer, " "); code {
		case "400", "401", "403", "404":
			status, answer = map[string]int{"400": 400, "401": 401, "403": 403, "404": 404}[code], body
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(hs.Close)
	o.Homeserver, o.Store = hs.URL, newStore(t)
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A refused login names what helps, in the homeserver's own words.
func TestLoginRefused(t *testing.T) {
	const disabled, versions = `400 {"errcode":"M_UNKNOWN","error":"Password login has been disabled."}`, `{"versions":["v1.1"]}`
	password, token := Options{Username: "bot", Password: "p"}, Options{AccessToken: "secret"}
	for name, tt := range map[string]struct {
		o       Options
		answers map[string]string
		class   Class
		reason  string
		setting string
	}{
		"disabled": {
			password,
			map[string]string{"POST /v3/login": disabled, "GET /v3/login": `{"flows":[{"type":"m.login.sso"}]}`},
			ClassLocked, `the homeserver has no login with a password: "Password login has been disabled."`, "matrix.accesstoken",
		},
		"refused": {
			password,
			map[string]string{"POST /v3/login": disabled, "GET /v3/login": `{"flows":[{"type":"m.login.password"}]}`},
			ClassLocked, `the homeserver refuses the login: "Password login has been disabled."`, "",
		},
		"no login at all": {
			password,
			map[string]string{"GET /versions": versions},
			ClassLocked, `the homeserver has no login with a password: "Unrecognized request"`, "matrix.accesstoken",
		},
		"no homeserver":  {password, nil, ClassAway, byCode["M_UNRECOGNIZED"].Reason, ""},
		"wrong password": {password, map[string]string{"POST /v3/login": `403 {"errcode":"M_FORBIDDEN","error":"x"}`}, ClassLocked, wrongPassword, ""},
		"ended token": {
			token,
			map[string]string{"GET /v3/account/whoami": `401 {"errcode":"M_UNKNOWN_TOKEN","error":"Token is not active"}`},
			ClassLocked, `the configured access token has ended or is wrong: "Token is not active"`, "matrix.accesstoken",
		},
		"repeated token": {
			token,
			map[string]string{"GET /v3/account/whoami": `401 {"errcode":"M_UNKNOWN_TOKEN","error":"unknown: secret"}`},
			ClassLocked, "the configured access token has ended or is wrong", "matrix.accesstoken",
		},
	} {
		var failed *SendError
		err := stub(t, tt.o, tt.answers).Probe(t.Context())
		if !errors.As(err, &failed) || failed.Class != tt.class || failed.Reason != tt.reason || failed.Setting != tt.setting {
			t.Errorf("%s: %+v", name, err)
		}
	}
}

// Dendrite may answer for m.room.encryption with another event's content before the bot has joined: only an algorithm makes a room encrypted.
func TestStanding_EncryptionNeedsAlgorithm(t *testing.T) {
	const path, room = "GET /v3/rooms/!r:hs/state/m.room.encryption/", "!r:hs"
	answers := map[string]string{
		"GET /v3/account/whoami": `{"user_id":"@bot:hs","device_id":"D"}`, "POST /v3/join/" + room: `{"room_id":"!r:hs"}`,
		"GET /v3/rooms/!r:hs/state/m.room.tombstone/": `404 {"errcode":"M_NOT_FOUND"}`,
	}
	c := stub(t, Options{AccessToken: "t"}, answers)
	if err := c.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		content   string
		encrypted bool
	}{{`{"creator":"@a:hs","room_version":"10"}`, false}, {`{"algorithm":7}`, false}, {`{"algorithm":"m.megolm.v1.aes-sha2"}`, true}} {
		answers[path] = tt.content
		if err := c.Join(t.Context(), room); err != nil { // asks again
			t.Fatal(err)
		}
		if got, err := c.standing(t.Context(), room); err != nil || got.encrypted != tt.encrypted {
			t.Errorf("%s: encrypted is %v, %v", tt.content, got.encrypted, err)
		}
	}
}
