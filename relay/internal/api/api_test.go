package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/relay/internal/account"
	relayclient "slipway/relay/internal/client"
	"slipway/relay/internal/doctor"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/protocol/webhook"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
	"slipway/shared/health"
)

// world is a served API over a real service and a scripted homeserver.
type world struct {
	*testing.T
	service *service.Service
	hs      *relaytest.Homeserver
	api     *API
	admin   account.Principal

	base      string
	transport http.RoundTripper
}

const room = "!room:example.org"

func newWorld(t *testing.T, change func(*service.Options)) *world {
	t.Helper()
	return newWorldFor(t, change, webhook.Registry(nil))
}

func newWorldFor(t *testing.T, change func(*service.Options), extra ...protocol.Protocol) *world {
	t.Helper()
	w := newWorldWithoutNetwork(t, change, extra...)
	srv := httptest.NewServer(w.api)
	t.Cleanup(srv.Close)
	w.base, w.transport = srv.URL, http.DefaultTransport
	return w
}

// newWorldWithoutNetwork calls the handlers itself: a clock of the test's own stands still while a connection is read.
func newWorldWithoutNetwork(t *testing.T, change func(*service.Options), extra ...protocol.Protocol) *world {
	t.Helper()
	s, hs := relaytest.New(t, change)
	hs.Has(matrix.RoomInfo{RoomID: room, Joined: true, Writable: true})
	checks := health.Start(zap.NewNop(), health.Check{Name: DatabaseCheck, Func: s.CheckDatabase})
	t.Cleanup(checks.Close)
	a := New(Options{
		Health:  checks,
		Inbound: append([]protocol.Protocol{protocol.Native(), webhook.PushBits(), protocol.Heartbeat()}, extra...),
		Service: s, Log: zap.NewNop(), Metrics: NewMetrics(prometheus.NewRegistry()), MaxBody: 64 << 10, Version: Version{"1", "abc", "today"},
		RecoveryKey: func(context.Context) (string, error) { return "EsTq 1234", nil },
		Doctor:      doctor.Target{Service: s, Probe: hs.Probe, Identity: hs.Identity},
		Prometheus:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "# metrics\n") }),
	})
	admin, err := s.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	return &world{T: t, service: s, hs: hs, api: a, base: "http://relay.example", transport: relayclient.InProcess{Handler: a}, admin: admin}
}

// app makes an application and returns it with its token.
func (w *world) app(in account.ApplicationInput) account.IssuedToken {
	w.Helper()
	if in.Room == nil {
		r := room
		in.Room = &r
	}
	issued, err := w.service.CreateApplication(w.Context(), w.admin, in)
	if err != nil {
		w.Fatal(err)
	}
	return issued
}

func named(name string) account.ApplicationInput { return account.ApplicationInput{Name: &name} }

// reply is an answer, read whole.
type reply struct {
	status int
	header http.Header
	body   string
	fields map[string]any
}

// ask sends a request; headers are written "Name: value".
func (w *world) ask(method, path, body string, headers ...string) reply {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	resp, err := w.transport.RoundTrip(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	r := reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
	_ = json.Unmarshal(text, &r.fields)
	return r
}

// manage asks as the administrator.
func (w *world) manage(method, path, body string) reply {
	w.Helper()
	return w.ask(method, path, body, basicHeader(relaytest.AdminName, relaytest.AdminPassword))
}

func basicHeader(name, password string) string {
	r, _ := http.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth(name, password)
	return "Authorization: " + r.Header.Get("Authorization")
}

// want checks the status and fields of an answer.
func (w *world) want(what string, r reply, status int, fields ...any) {
	w.Helper()
	if r.status != status {
		w.Errorf("%s: %d %s, want %d", what, r.status, r.body, status)
		return
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if got := r.fields[fields[i].(string)]; got != fields[i+1] {
			w.Errorf("%s: %s is %v, want %v", what, fields[i], got, fields[i+1])
		}
	}
}
