package matrix

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"maunium.net/go/mautrix/event"

	"slipway/relay/internal/store"
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
	password, token := Options{Username: "bot", Password: "hunter2"}, Options{AccessToken: "secret"}
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
		"no homeserver": {password, nil, ClassAway, byCode["M_UNRECOGNIZED"].Reason, ""},
		"wrong password": {
			password,
			map[string]string{"POST /v3/login": `403 {"errcode":"M_FORBIDDEN","error":"Invalid username or password"}`, "GET /v3/login": `{"flows":[{"type":"m.login.password"}]}`},
			ClassLocked, wrongPassword + `: "Invalid username or password"`, "",
		},
		"forbidden, as Continuwuity does": {
			password,
			map[string]string{"POST /v3/login": `403 {"errcode":"M_FORBIDDEN","error":"Password login is not enabled."}`, "GET /v3/login": `{"flows":[{"type":"m.login.application_service"}]}`},
			ClassLocked, `the homeserver has no login with a password: "Password login is not enabled."`, "matrix.accesstoken",
		},
		"deactivated": {
			password,
			map[string]string{"POST /v3/login": `403 {"errcode":"M_USER_DEACTIVATED","error":"This account has been deactivated"}`},
			ClassLocked, `the bot's account is deactivated: "This account has been deactivated"`, "",
		},
		"terms": {
			password,
			map[string]string{"POST /v3/login": `403 {"errcode":"M_CONSENT_NOT_GIVEN","error":"Agree at https://hs/terms"}`},
			ClassLocked, `the bot's account has not agreed to the homeserver's terms: "Agree at https://hs/terms"`, "",
		},
		"ended token": {
			token,
			map[string]string{"GET /v3/account/whoami": `401 {"errcode":"M_UNKNOWN_TOKEN","error":"Token is not active"}`},
			ClassLocked, `the configured access token has ended or is wrong: "Token is not active"`, "matrix.accesstoken",
		},
		"token of a locked account": {
			token,
			map[string]string{"GET /v3/account/whoami": `401 {"errcode":"M_USER_LOCKED","error":"Locked","soft_logout":true}`},
			ClassLocked, `the bot's account is locked: "Locked"`, "matrix.accesstoken",
		},
		"token of another account": {
			Options{AccessToken: "secret", Username: "bot"},
			map[string]string{"GET /v3/account/whoami": `{"user_id":"@you:hs","device_id":"D"}`},
			ClassLocked, "the access token is of @you:hs, not of the configured user", "matrix.accesstoken",
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
		if remedy := cmp.Or(tt.setting, "matrix.password"); (tt.class == ClassLocked) != strings.Contains(failed.Remedy(), remedy) {
			t.Errorf("%s: the remedy is %q", name, failed.Remedy())
		}
	}
}

// Only a text as algorithm makes a room encrypted: clients ignore other events, and Dendrite may answer with another event's content
// before the bot has joined. The room is asked about again after the join.
func TestStanding_EncryptionNeedsAlgorithm(t *testing.T) {
	const path, id = "GET /v3/rooms/!r:hs/state/m.room.encryption/", "!r:hs"
	answers := map[string]string{
		"GET /v3/account/whoami": `{"user_id":"@bot:hs","device_id":"D"}`, "POST /v3/join/" + id: `{"room_id":"!r:hs"}`,
		"GET /v3/rooms/!r:hs/state/m.room.tombstone/": `404 {"errcode":"M_NOT_FOUND"}`,
	}
	c := stub(t, Options{AccessToken: "t"}, answers)
	if err := c.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		content   string
		encrypted bool
	}{{`{"creator":"@a:hs","room_version":"10"}`, false}, {`{"algorithm":7}`, false}, {`{"algorithm":""}`, false}, {`{"algorithm":"m.megolm.v1.aes-sha2","rotation_period_ms":"x"}`, true}} {
		answers[path] = tt.content
		answers["GET /v3/sync"] = `{"next_batch":"s","rooms":{"join":{"!r:hs":{"state":{"events":[{"type":"m.room.encryption","state_key":"","content":` + tt.content + `}]}}}}}`
		if rooms, err := c.JoinedRooms(t.Context()); err != nil || len(rooms) != 1 || rooms[0].Encrypted != tt.encrypted {
			t.Errorf("%s: the list has %+v, %v", tt.content, rooms, err)
		}
		e := &event.Event{Type: event.StateEncryption, StateKey: new(string), Content: event.Content{VeryRaw: json.RawMessage(tt.content)}}
		if said := c.takeState(t.Context(), "!of-sync:hs", e); (len(said) == 1) != tt.encrypted || c.rooms.update("!of-sync:hs", func(*room) {}).encrypted != tt.encrypted {
			t.Errorf("%s: sync reports %v", tt.content, said)
		}
		if err := c.Join(t.Context(), id); err != nil { // asks again
			t.Fatal(err)
		}
		if got, err := c.standing(t.Context(), id); err != nil || got.encrypted != tt.encrypted {
			t.Errorf("%s: encrypted is %v, %v", tt.content, got.encrypted, err)
		}
	}
}

// A login that couldn't be stored isn't tried: each would leave a device that nobody uses again.
func TestLoginIsStored(t *testing.T) {
	logins := 0
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/login") {
			logins++
			_, _ = io.WriteString(w, `{"user_id":"@bot:hs","device_id":"D","access_token":"t"}`)
		}
	}))
	t.Cleanup(hs.Close)
	path := filepath.Join(t.TempDir(), "relay.db")
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	c, err := New(Options{Homeserver: hs.URL, Username: "bot", Password: "hunter2", Store: db})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	full := func(statement string) {
		t.Helper()
		if _, err := other.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	full(`CREATE TRIGGER full BEFORE INSERT ON settings BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
	for range 3 {
		if _, err := c.open(t.Context()); err == nil || logins > 0 {
			t.Fatalf("%d logins, %v", logins, err)
		}
	}
	full(`DROP TRIGGER full`)
	if s, err := c.open(t.Context()); err != nil || s.DeviceID != "D" || logins != 1 {
		t.Errorf("%d logins, %v", logins, err)
	}
}
