package api

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/relaytest"
	"slipway/relay/openapi"
	"slipway/shared/openapitest"
)

func readDocument(t *testing.T) *openapitest.Document {
	t.Helper()
	return openapitest.Read(t, openapi.Document)
}

func TestDocument_SuitsGenerators(t *testing.T) { readDocument(t).CheckGenerators(t) }

// Both lists of states, and the texts that name some of them, are those of the post.
func TestDocument_StatesAreThoseOfTheOutbox(t *testing.T) {
	d := readDocument(t)
	list := func(enum []any) (states []post.State) {
		for _, s := range enum {
			states = append(states, post.State(fmt.Sprint(s)))
		}
		return states
	}
	if got := list(d.Components.Schemas["State"].Enum); !slices.Equal(got, post.States) {
		t.Errorf("State is %v, want %v", got, post.States)
	}
	want := append(slices.Clone(post.States), post.StateForgotten)
	if got := list(d.Components.Schemas["Accepted"].Properties["status"].Enum); !slices.Equal(got, want) {
		t.Errorf("the status of an answer is %v, want %v", got, want)
	}
	for path, states := range map[string][]post.State{"/message/redeliver": post.RedeliverableStates, "/message/withdraw": post.CancellableStates} {
		node := d.Paths[path]["post"]
		var text struct{ Description string }
		if err := node.Decode(&text); err != nil || !strings.Contains(text.Description, post.OneOf(states)) {
			t.Errorf("%s doesn't name the states %s: %q, %v", path, post.OneOf(states), text.Description, err)
		}
	}
}

// Fields of answers about messages are documented, also those that most answers leave out because they are empty.
func TestDocument_HasTheFieldsOfMessages(t *testing.T) {
	d := readDocument(t)
	for name, answer := range map[string]any{"MessageList": messageList{}, "AlertList": alertList{}, "ChangeList": changeList{}, "Accepted": protocol.Message{}} {
		d.CheckFields(t, d.Components.Schemas[name], reflect.TypeOf(answer), name)
	}
}

func TestEveryRouteIsDocumented(t *testing.T) {
	var routes []string
	for _, row := range newWorld(t, nil).api.rows {
		routes = append(routes, row.method+" "+row.template())
	}
	readDocument(t).CheckRoutes(t, routes)
}

// TestRefusalsAreDocumented: what every route of a kind may answer with, whatever it
// does: a login that fails, too many of them, a database that takes nothing, a body
// that cannot be read.
func TestRefusalsAreDocumented(t *testing.T) {
	w := newWorld(t, nil)
	d := readDocument(t)
	for _, row := range w.api.rows {
		op := d.Operation(t, row.method, row.template())
		var want []string
		if row.who != anybody {
			want = []string{"401", "429", "503"}
		}
		if (row.who == viewers || row.who == users || row.who == readers) && row.method != http.MethodGet {
			want = append(want, "403") // a session without its word
		}
		if op.Body != nil {
			want = append(want, "400", "408", "413", "415")
		}
		for _, status := range want {
			if _, ok := op.Responses[status]; !ok {
				t.Errorf("%s %s: the status %s is not documented", row.method, row.template(), status)
			}
		}
	}
}

// onePixel is the smallest GIF.
const onePixel = "GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"

// TestAnswersAreAsDocumented asks for each route, rightly and wrongly.
func TestAnswersAreAsDocumented(t *testing.T) {
	w := newWorld(t, nil)
	d := readDocument(t)
	token := w.app(named("a")).Token
	key, admin := "X-Gotify-Key: "+token, basicHeader(relaytest.AdminName, relaytest.AdminPassword)
	client := "X-Gotify-Key: " + w.gotify(admin).token
	asked := map[string]bool{}
	for _, tt := range []struct {
		method, path, id, query, body, auth string
		status                              int
	}{
		{"POST", "/message", "", "?wait=5s", `{"message":"m","extras":{"a":1}}`, key, 200},
		{"POST", "/message", "", "", `{"message":"m","priority":0}`, key, 200},
		{"POST", "/message", "", "", `{}`, key, 400},
		{"POST", "/message", "", "", `{"message":"m"}`, "", 401},
		{"POST", "/message", "", "", `{"message":"` + strings.Repeat("m", 65<<10) + `"}`, key, 413},
		{"POST", "/message", "", "", "<x>", key, 415},
		{"GET", "/message", "", "?limit=1", "", key, 200},
		{"GET", "/message", "", "", "", key, 403},
		{"GET", "/message", "", "?limit=0", "", key, 400},
		{"GET", "/message/{id}", "1", "", "", key, 200},
		{"GET", "/message/{id}", "99", "", "", key, 404},
		{"POST", "/message", "", "", `{"message":"m","key":"k"}`, key, 200},
		{"GET", "/alert", "", "", "", key, 403},
		{"GET", "/alert", "", "?limit=1", "", admin, 200},
		{"GET", "/alert", "", "?before=x", "", admin, 400},
		{"POST", "/message/{id}/acknowledge", "1", "", "", key, 409},
		{"POST", "/message/{id}/acknowledge", "98", "", "", key, 404},
		{"POST", "/message/{id}/acknowledge", "3", "", "", key, 200},
		{"GET", "/message/{id}", "3", "", "", key, 200},
		{"PUT", "/message/{id}", "1", "", `{"message":"n"}`, key, 200},
		{"GET", "/message/{id}/history", "1", "", "", key, 200},
		{"GET", "/message/{id}/history", "1", "?limit=0", "", key, 400},
		{"GET", "/message/{id}/history", "99", "", "", key, 404},
		{"PUT", "/message/{id}", "99", "", `{"message":"n"}`, key, 404},
		{"PUT", "/message/{id}", "1", "", `{"message":""}`, key, 400},
		{"POST", "/message/{id}/redeliver", "1", "", "", key, 409},
		{"POST", "/message/redeliver", "", "?state=dead", "", key, 200},
		{"POST", "/message/redeliver", "", "?state=sent", "", key, 400},
		{"POST", "/message/withdraw", "", "?state=dead,blocked", "", key, 200},
		{"POST", "/message/withdraw", "", "", "", key, 400},
		{"DELETE", "/message/{id}", "1", "", "", key, 200},
		{"POST", "/message/{id}/redeliver", "98", "", "", admin, 404},
		{"DELETE", "/message", "", "", "", admin, 200},
		{"DELETE", "/message", "", "", "", "", 401},
		{"GET", "/application/{id}/message", "1", "?limit=1", "", admin, 200},
		{"GET", "/application/{id}/message", "1", "?limit=201", "", admin, 400},
		{"GET", "/application/{id}/message", "9", "", "", admin, 404},
		{"DELETE", "/application/{id}/message", "1", "", "", admin, 200},
		{"DELETE", "/application/{id}/message", "9", "", "", admin, 404},
		{"POST", "/client", "", "", `{"name":"phone"}`, admin, 200},
		{"POST", "/client", "", "", `{}`, admin, 400},
		{"POST", "/client", "", "", `{"name":"phone"}`, key, 401},
		{"GET", "/client", "", "", "", admin, 200},
		{"PUT", "/client/{id}", "2", "", `{"name":"my phone"}`, admin, 200},
		{"PUT", "/client/{id}", "9", "", `{"name":"my phone"}`, admin, 404},
		{"GET", "/current/user", "", "", "", admin, 200},
		{"DELETE", "/client/{id}", "2", "", "", admin, 200},
		{"DELETE", "/client/{id}", "2", "", "", admin, 404},
		{"POST", "/auth/local/login", "", "", `{"name":"browser"}`, admin, 200},
		{"POST", "/auth/local/login", "", "", `{}`, admin, 400},
		{"POST", "/auth/local/login", "", "", `{"name":"browser"}`, "", 401},
		{"POST", "/auth/logout", "", "", "", admin, 403},
		{"POST", "/auth/logout", "", "", "", client, 200},
		{"POST", "/auth/logout", "", "", "", client, 401},
		{"GET", "/stream", "", "", "", "", 401},
		{"GET", "/stream", "", "?after=x", "", admin, 400},
		{"GET", "/message/stream", "", "?after=-1", "", key, 400},
		{"GET", "/message/stream", "", "", "", "", 401},
		{"GET", "/gotifyinfo", "", "", "", "", 200},
		{"GET", "/static/defaultapp.png", "", "", "", "", 200},
		{"GET", "/image/{name}", "1-x", "", "", "", 404},
		{"POST", "/hook/registry", "", "", `{"events":[{"id":"1","action":"push","target":{"repository":"r","tag":"t"}},{"action":"pull"}]}`, key, 200},
		{"POST", "/hook/registry", "", "", `{"events":`, key, 400},
		{"POST", "/hook/registry", "", "", `{"events":[]}`, "", 401},
		{"POST", "/hook/registry", "", "", `{"events":[` + strings.Repeat("{},", 1000) + `{}]}`, key, 413},
		{"POST", "/hook/registry", "", "", `<x>`, key, 415},
		{"POST", "/alert", "", "", `{"alerts":[{"status":"firing","labels":{"alertname":"a"}}]}`, key, 200},
		{"POST", "/alert", "", "", `[]`, key, 400},
		{"POST", "/alert", "", "", `{}`, "", 401},
		{"POST", "/heartbeat", "", "", "", key, 200},
		{"GET", "/heartbeat", "", "", "", key, 200},
		{"GET", "/heartbeat", "", "", "", "", 401},
		{"POST", "/heartbeat/{token}", token, "", "", "", 200},
		{"GET", "/heartbeat/{token}", token, "", "", "", 200},
		{"GET", "/heartbeat/{token}", "wrong", "", "", "", 401},
		{"GET", "/application", "", "", "", admin, 200},
		{"POST", "/application", "", "", `{"name":"b","room_id":"!b"}`, admin, 201},
		{"POST", "/application", "", "", `{"name":"b","room_id":"!b"}`, admin, 409},
		{"GET", "/application/{id}", "2", "", "", admin, 200},
		{"GET", "/application/{id}", "2", "", "", "", 401},
		{"PUT", "/application/{id}", "2", "", `{"name":"c"}`, admin, 200},
		{"POST", "/application/{id}/token", "2", "", `{"grace":"1h"}`, admin, 200},
		{"POST", "/application/{id}/preview", "2", "", `{"template_title":"{{.a}}","payload":{"a":"b"}}`, admin, 200},
		{"POST", "/application/{id}/preview", "2", "", `{"template_title":"{{","payload":{}}`, admin, 400},
		{"GET", "/application/{id}/preview", "2", "", "", admin, 404},
		{"GET", "/application/{id}/image", "2", "", "", admin, 404},
		{"POST", "/application/{id}/image", "2", "", "<svg/>", admin, 400},
		{"POST", "/application/{id}/image", "2", "", onePixel, admin, 200},
		{"GET", "/application/{id}/image", "2", "", "", admin, 200},
		{"DELETE", "/application/{id}/image", "2", "", "", admin, 200},
		{"DELETE", "/application/{id}", "2", "", "", admin, 200},
		{"GET", "/user", "", "", "", admin, 200},
		{"POST", "/user", "", "", `{"name":"u","password":"long enough"}`, admin, 201},
		{"GET", "/user/{id}", "2", "", "", admin, 200},
		{"PUT", "/user/{id}", "2", "", `{"is_admin":true}`, admin, 200},
		{"DELETE", "/user/{id}", "2", "", "", admin, 200},
		{"GET", "/doctor", "", "", "", admin, 200},
		{"GET", "/bot/recovery-key", "", "", "", admin, 200},
		{"GET", "/health", "", "", "", "", 200},
		{"GET", "/livez", "", "", "", "", 200},
		{"GET", "/v1/health", "", "", "", "", 200},
		{"GET", "/ntfy/v1/health", "", "", "", "", 200},
		{"GET", "/readyz", "", "", "", "", 200},
		{"GET", "/version", "", "", "", "", 200},
		{"GET", "/metrics", "", "", "", "", 200},
		{"GET", "/openapi.yml", "", "", "", "", 200},
	} {
		what := fmt.Sprintf("%s %s%s (%d)", tt.method, tt.path, tt.query, tt.status)
		var headers []string
		if tt.auth != "" {
			headers = append(headers, tt.auth)
		}
		if tt.status == http.StatusUnsupportedMediaType {
			headers = append(headers, "Content-Type: application/xml")
		}
		r := w.ask(tt.method, strings.NewReplacer("{id}", tt.id, "{name}", tt.id, "{token}", tt.id).Replace(tt.path)+tt.query, tt.body, headers...)
		w.want(what, r, tt.status)
		if r.status < 300 {
			asked[tt.method+" "+tt.path] = true
		}
		d.CheckAnswer(t, what, d.Operation(t, tt.method, tt.path), r.status, r.header, []byte(r.body))
	}
	for _, row := range w.api.rows {
		if name := row.method + " " + row.template(); !asked[name] && !slices.Contains(elsewhere, name) {
			t.Errorf("%s was not asked for with success", name)
		}
	}
}

// elsewhere are routes whose success other tests see.
var elsewhere = []string{"GET /application/{id}/preview", "POST /message/{id}/redeliver", "GET /stream", "GET /message/stream", "GET /image/{name}"}
