package webhook

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
)

// pushV2 is what distribution 2.8 sends for `docker push localhost:5000/team/app:1`,
// with references.
const pushV2 = `{
   "events": [
      {
         "id": "e6bb6e5e-5d6a-4b57-9f0a-8a3c3f3f9f11",
         "timestamp": "2026-11-21T07:22:14.727Z",
         "action": "push",
         "target": {
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "size": 1570,
            "digest": "sha256:8e1c7573a3a2b6e2f1a4f0f0e5a7d1c2b3a4958677869504132231405e6f7a8b",
            "length": 1570,
            "references": [
               {"mediaType": "application/vnd.docker.container.image.v1+json", "size": 1457, "digest": "sha256:aa"},
               {"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": 3208942, "digest": "sha256:bb"}
            ],
            "repository": "team/app",
            "url": "http://localhost:5000/v2/team/app/manifests/sha256:8e1c",
            "tag": "1"
         },
         "request": {"id": "r", "addr": "127.0.0.1:1", "host": "localhost:5000", "method": "PUT", "useragent": "docker/20"},
         "actor": {"name": "alice"},
         "source": {"addr": "host:5000", "instanceID": "i"}
      }
   ]
}`

func TestRegistryReadsDistributionsPush(t *testing.T) {
	b, err := parseEnvelope([]byte(pushV2))
	if err != nil || b.Ignored != 0 || len(b.Drafts) != 1 {
		t.Fatal(b.Drafts, b.Ignored, err)
	}
	want := post.Draft{
		IdempotencyKey: "registry:e6bb6e5e-5d6a-4b57-9f0a-8a3c3f3f9f11", Topic: "team/app", Content: post.Content{Title: "team/app:1 pushed", Body: "<code>sha256:8e1c7573a3a2</code>, 3.2 MB, pushed by <code>alice</code> to <code>localhost:5000</code>", ContentType: "text/html"}, Priority: new(int),
	}
	if !reflect.DeepEqual(b.Drafts[0], want) {
		t.Errorf("%+v\nwant %+v", b.Drafts[0], want)
	}
}

func TestRegistryMessages(t *testing.T) {
	const index = `"mediaType":"application/vnd.oci.image.index.v1+json"`
	for _, tt := range []struct{ event, title, message string }{
		{`{"action":"delete","target":{"repository":"a","tag":"1"}}`, "a:1 deleted", "deleted"},
		{`{"action":"delete","target":{"repository":"a","tag":"1","mediaType":"","size":0},"actor":{"name":"bob"},"request":{"host":"h"}}`, "a:1 deleted", "deleted by <code>bob</code> from <code>h</code>"},
		{`{"action":"push","target":{"repository":"a","tag":"1","size":999}}`, "a:1 pushed", "manifest of 999 B, pushed"},
		{`{"action":"push","target":{"repository":"a","tag":"1",` + index + `,"size":999}}`, "a:1 pushed", "for several platforms, pushed"},
		{
			`{"action":"push","target":{"repository":"a","tag":"1",` + index + `,"references":[{"size":1,"platform":{"os":"linux","architecture":"amd64"}},` +
				`{"platform":{"os":"linux","architecture":"arm","variant":"v7"}},{"platform":{"os":"unknown","architecture":"unknown"}}]}}`,
			"a:1 pushed", "for <code>linux/amd64</code>, <code>linux/arm/v7</code>, pushed",
		},
		{
			`{"action":"push","target":{"repository":"a","tag":"1",` + index + `,"references":[` + strings.Repeat(`{"platform":{"os":"o","architecture":"a"}},`, 8) + `{}]}}`,
			"a:1 pushed", "for " + strings.Repeat("<code>o/a</code>, ", 6) + "2 more, pushed",
		},
		{`{"action":"push","target":{"repository":"a","tag":"1","references":[{"size":9223372036854775807},{"size":1}]}}`, "a:1 pushed", "pushed"},
		{`{"action":"push","target":{"repository":"a","tag":"1","references":[{"size":-5}]}}`, "a:1 pushed", "pushed"},
		{`{"action":"push","target":{"repository":"a\n# b","tag":"*x*","digest":"<_>"}}`, "a # b:*x* pushed", "<code>&lt;_&gt;</code>, pushed"},
		{`{"action":"push","target":{"repository":"a","tag":"` + strings.Repeat("é", 100) + `"}}`, "a:" + strings.Repeat("é", 64) + "… pushed", "pushed"},
		{`{"action":"push","target":{"repository":"a","tag":"\u202e1"},"actor":{"name":"\u0000"}}`, "a:\uFFFD1 pushed", "pushed by <code>\uFFFD</code>"},
	} {
		b, err := parseEnvelope([]byte(`{"events":[` + tt.event + `]}`))
		if err != nil || len(b.Drafts) != 1 {
			t.Errorf("%s: %v, %d messages", tt.event, err, len(b.Drafts))
			continue
		}
		if n := b.Drafts[0]; n.Title != tt.title || n.Body != tt.message {
			t.Errorf("%s\n is %q, %q\nwant %q, %q", tt.event, n.Title, n.Body, tt.title, tt.message)
		}
	}
}

// deletedRepository is what Slipway's registry sends for the deletion of a whole repository, with the fields of the target
// before its name as events.version has them.
const deletedRepository = `{"events":[{"id":"8a5b3c","timestamp":"2026-11-28T07:28:19.385098406Z","action":"delete","target":{%s"repository":"web/old"},` +
	`"request":{"id":"53711a4dd6-2","addr":"203.0.113.9:4711","host":"registry.example.org","method":"DELETE","useragent":"curl/8"},"actor":{"name":"ada"},` +
	`"source":{"addr":"node1:5000","instanceID":"75f7085b-d80b-44a8-8772-596fb4776313"}}]}`

func TestRegistryReportsADeletedRepository(t *testing.T) {
	want := post.Draft{
		IdempotencyKey: "registry:8a5b3c", Topic: "web/old", Content: post.Content{Title: "web/old deleted", Body: "deleted by <code>ada</code> from <code>registry.example.org</code>", ContentType: "text/html"}, Priority: new(int),
	}
	for version, fields := range map[string]string{"v1": "", "v2": `"mediaType":"","digest":"","size":0,`} {
		b, err := parseEnvelope([]byte(strings.Replace(deletedRepository, "%s", fields, 1)))
		if err != nil || b.Ignored != 0 || len(b.Drafts) != 1 {
			t.Errorf("%s: %v, %d messages, %d ignored", version, err, len(b.Drafts), b.Ignored)
			continue
		}
		if !reflect.DeepEqual(b.Drafts[0], want) {
			t.Errorf("%s: %+v\nwant %+v", version, b.Drafts[0], want)
		}
	}
}

// Names that a client chose stay text: a title is one line, and a message has no markup but the relay's.
func TestRegistryEscapesNames(t *testing.T) {
	for _, tt := range []struct{ name, line string }{
		{"a\nb\r\nc", "a b  c"},
		{"<b>a</b><script>", "<b>a</b><script>"},
		{"[a](https://evil.example)", "[a](https://evil.example)"},
		{"](", "]("},
		{"</code><img src=x>&amp;", "</code><img src=x>&amp;"},
		{"`*_a_*`\n# b", "`*_a_*` # b"},
	} {
		quoted, err := json.Marshal(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range []string{"push", "delete"} {
			event := strings.ReplaceAll(`{"action":"`+action+`","target":{"repository":NAME,"tag":NAME,"digest":"sha256:1","mediaType":"application/vnd.oci.image.index.v1+json",`+
				`"references":[{"platform":{"os":NAME,"architecture":"arm"}}]},"actor":{"name":NAME},"request":{"host":NAME}}`, "NAME", string(quoted))
			b, err := parseEnvelope([]byte(`{"events":[` + event + `]}`))
			if err != nil || len(b.Drafts) != 1 {
				t.Errorf("%s: %v, %d messages", event, err, len(b.Drafts))
				continue
			}
			title, platform, done, where := tt.line+":"+tt.line+" pushed", ", for "+tt.line+"/arm", "pushed", "to"
			if action == "delete" {
				title, platform, done, where = tt.line+":"+tt.line+" deleted", "", "deleted", "from"
			}
			d := b.Drafts[0]
			if d.Title != title {
				t.Errorf("%s of %q: title %q, want %q", action, tt.name, d.Title, title)
			}
			html, text := format.Body(d.ContentType, d.Body)
			want := strings.Join(strings.Fields("sha256:1"+platform+", "+done+" by "+tt.line+" "+where+" "+tt.line), " ")
			if text != want {
				t.Errorf("%s of %q: text %q, want %q", action, tt.name, text, want)
			}
			if own := strings.NewReplacer("<code>", "", "</code>", "").Replace(html); strings.ContainsAny(own, "<>") {
				t.Errorf("%s of %q: markup in %s", action, tt.name, html)
			}
		}
	}
}

func TestRegistryIgnores(t *testing.T) {
	for _, event := range []string{
		`{"action":"push","target":{"repository":"a","mediaType":"application/octet-stream","digest":"sha256:1"}}`, // a blob
		`{"action":"push","target":{"repository":"a","digest":"sha256:1"}}`,                                        // a child of an index
		`{"action":"pull","target":{"repository":"a","tag":"1"}}`,
		`{"action":"mount","target":{"repository":"a","fromRepository":"b"}}`,
		`{"action":"delete","target":{"repository":"a","digest":"sha256:1"}}`, // each tag has an event of its own
		`{"action":"push","target":{"repository":"a"}}`,
		`{"action":"push","target":{"tag":"1"}}`,
		`{"action":"delete","target":{}}`,
		`{}`, `null`,
	} {
		b, err := parseEnvelope([]byte(`{"events":[` + event + `]}`))
		if err != nil || len(b.Drafts) != 0 || b.Ignored != 1 {
			t.Errorf("%s: %v, %d messages, %d ignored", event, err, len(b.Drafts), b.Ignored)
		}
	}
}

func TestRegistryKeysAndPriorities(t *testing.T) {
	const target = `"action":"push","target":{"repository":"a","tag":"1"}`
	read := func(events string) []post.Draft {
		t.Helper()
		b, err := parseEnvelope([]byte(`{"events":[` + events + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		return b.Drafts
	}
	n := read(`{` + target + `},{` + target + `,"timestamp":"2026-11-21T00:00:00Z"},{"id":"` + strings.Repeat("x", 101) + `",` + target + `},{"id":"é",` + target + `}`)
	seen := map[string]bool{}
	for _, one := range n {
		if seen[one.IdempotencyKey] || len(one.IdempotencyKey) > 128 || !strings.HasPrefix(one.IdempotencyKey, "registry/sha256:") {
			t.Errorf("key %q", one.IdempotencyKey)
		}
		seen[one.IdempotencyKey] = true
	}
	if again := read(`{` + target + `}`); again[0].IdempotencyKey != n[0].IdempotencyKey {
		t.Error("the same event has another key")
	}
	for tag, want := range map[string]int{"1": 0, "sha256-" + strings.Repeat("a", 64) + ".sig": -1, "sha256-" + strings.Repeat("a", 64): -1, "sha256-a.sig": 0} {
		if got := read(`{"action":"push","target":{"repository":"a","tag":"` + tag + `"}}`)[0].Priority; *got != want {
			t.Errorf("tag %s: priority %d, want %d", tag, *got, want)
		}
	}
}

func TestRegistryRefuses(t *testing.T) {
	for _, body := range []string{``, `x`, `{}`, `[]`, `{"events":null}`, `{"events":{}}`, `{"events":["x"]}`, `{"events":[{"target":1}]}`, `{"events":[]} {}`} {
		if _, err := parseEnvelope([]byte(body)); err == nil {
			t.Errorf("%s is taken", body)
		}
	}
	many := `{"events":[` + strings.Repeat(`{},`, maxEvents) + `{}]}`
	if _, err := parseEnvelope([]byte(many)); refusal.KindOf(err) != refusal.KindTooLarge {
		t.Errorf("%d events: %v", maxEvents+1, err)
	}
}
