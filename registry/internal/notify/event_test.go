package notify

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

const someDigest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

func someEvent() Event {
	return Event{
		ID: "id", Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Action: Push, Actor: "ada",
		Target: Target{
			MediaType: "application/vnd.oci.image.index.v1+json", Digest: someDigest, Size: 7, Repository: "a/b", URL: "http://h/v2/a/b/manifests/x", Tag: "v1",
			Manifest: []byte(`{"manifests":[{"mediaType":"m","digest":"` + someDigest + `","size":3,"platform":{"architecture":"arm","os":"linux","variant":"v7"}}]}`),
		},
		Request: Request{ID: "r", Addr: "1.2.3.4:5", Host: "h", Method: "PUT", UserAgent: "docker/1"},
		Source:  Source{Addr: "here:5000", InstanceID: "i"},
	}
}

func TestEncode(t *testing.T) {
	tests := []struct {
		name       string
		version    Version
		references bool
		change     func(*Event)
		want       string // of the target
	}{
		{"push", V1, false, func(*Event) {}, `{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"` + someDigest + `","size":7,"length":7,"repository":"a/b","url":"http://h/v2/a/b/manifests/x","tag":"v1"}`},
		{
			"references", V2, true, func(*Event) {},
			`{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"` + someDigest + `","size":7,"length":7,"repository":"a/b","url":"http://h/v2/a/b/manifests/x","tag":"v1",` +
				`"references":[{"mediaType":"m","digest":"` + someDigest + `","size":3,"platform":{"architecture":"arm","os":"linux","variant":"v7"}}]}`,
		},
		{
			"references of 2.8", V1, true, func(*Event) {},
			`{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"` + someDigest + `","size":7,"length":7,"repository":"a/b","url":"http://h/v2/a/b/manifests/x","tag":"v1",` +
				`"references":[{"mediaType":"m","digest":"` + someDigest + `","size":3}]}`,
		},
		{"tag delete of 2.8", V1, false, func(e *Event) { e.Target = Target{Repository: "a", Tag: "t"} }, `{"repository":"a","tag":"t"}`},
		{"tag delete of 3", V2, false, func(e *Event) { e.Target = Target{Repository: "a", Tag: "t"} }, `{"mediaType":"","digest":"","size":0,"repository":"a","tag":"t"}`},
		{"repository delete of 2.8", V1, false, func(e *Event) { e.Target = Target{Repository: "a"} }, `{"repository":"a"}`},
		{"repository delete of 3", V2, false, func(e *Event) { e.Target = Target{Repository: "a"} }, `{"mediaType":"","digest":"","size":0,"repository":"a"}`},
		{"mount", V1, true, func(e *Event) { e.Target = Target{Repository: "a", FromRepository: "b", Size: 1} }, `{"size":1,"length":1,"repository":"a","fromRepository":"b"}`},
		{
			"too many references", V1, true, func(e *Event) {
				one := `{"mediaType":"` + strings.Repeat("m", 1000) + `","digest":"` + someDigest + `","size":3}`
				e.Target = Target{Repository: "a", Manifest: []byte(`{"layers":[` + strings.Repeat(one+",", 1100) + one + `]}`)}
			},
			`{"repository":"a"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := someEvent()
			tt.change(&e)
			got, err := e.encode(tt.version, tt.references)
			want := `{"events":[{"id":"id","timestamp":"2026-01-02T03:04:05.000000006Z","action":"push","target":` + tt.want +
				`,"request":{"id":"r","addr":"1.2.3.4:5","host":"h","method":"PUT","useragent":"docker/1"},"actor":{"name":"ada"},"source":{"addr":"here:5000","instanceID":"i"}}]}`
			if err != nil || string(got) != want {
				t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
			}
		})
	}
}

// What a client sends is neither long nor broken in an event.
func TestEncodeBounds(t *testing.T) {
	e := someEvent()
	e.Request.UserAgent = strings.Repeat("ä", 1<<20)
	e.Actor = strings.Repeat("x", 1<<20)
	e.Request.Host = "\xff\n<script>"
	got, err := e.encode(V1, false)
	if err != nil || len(got) > 4*maxText || !json.Valid(got) || bytes.ContainsAny(got, "\n<\xff") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// Whatever a manifest refers to, receivers that take 2 MiB take its event.
func TestReferencesAreBounded(t *testing.T) {
	for _, size := range []int{1 << 10, 60 << 10, 600 << 10} {
		manifest := `{"layers":[{"mediaType":"x","digest":"d","size":1,"urls":["` + strings.Repeat(`u","`, size/4) + `"]}]}`
		e := Event{Action: Push, Target: Target{Manifest: []byte(manifest)}}
		body, err := e.encode(V2, true)
		if err != nil {
			t.Fatal(err)
		}
		var wire bytes.Buffer
		if err := json.Indent(&wire, body, "", "   "); err != nil || wire.Len() > 2<<20 {
			t.Errorf("%d bytes of a manifest of %d, %v", wire.Len(), len(manifest), err)
		}
		if has := strings.Contains(string(body), "references"); has != (size < maxReferences) {
			t.Errorf("references of a manifest of %d bytes: %v", len(manifest), has)
		}
	}
}
