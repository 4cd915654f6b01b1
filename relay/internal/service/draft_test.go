package service

import (
	"encoding/hex"
	"encoding/json"
	"reflect"
	"testing"

	"slipway/relay/internal/post"
)

// Hashes of earlier versions are in databases: a change makes every repeated request a conflict, and every report of an alert news.
func TestDigest_OfAnEarlierVersion_IsTheSame(t *testing.T) {
	priority := 1
	r := post.Draft{
		IdempotencyKey: "k", Priority: &priority, Change: post.Update, Edits: 3,
		Files: []post.Attachment{{ID: 9, Name: "a.txt", Type: "text/plain", Size: 1, Sum: []byte{1, 2}}},
	}
	e := &post.Entry{
		Origin: post.Origin{Thread: "thread", Key: "key"},
		Content: post.Content{
			Title: "T", Body: "body", ContentType: "text/html", Extras: `{"a":1}`, Priority: 1, GotifyScale: 6, Mentions: "@a:hs", Note: "note", Attachments: "[]",
		},
	}
	for name, test := range map[string]struct {
		hash []byte
		want string
	}{
		"key":    {keyOf(r, e).Hash, "17e2531f39b9e8d0e80d6992b720c2465af0f0a33d09a39a20336bfc85768954"},
		"report": {reportOf(r, e).Digest, "6c478ac108c5b6ac00171f4a4f7c532a8bf2704ca47e4ea8a526e25d4c6521b3"},
	} {
		if got := hex.EncodeToString(test.hash); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// A field that a request doesn't have isn't part of its hash, or a new field would change all of them.
func TestDigest_ContentWithoutAField_DoesNotNameIt(t *testing.T) {
	if text, err := json.Marshal(post.Content{}); err != nil || string(text) != "{}" {
		t.Errorf("%s, %v: a field of post.Content has no omitempty", text, err)
	}
	for f := range reflect.TypeFor[post.Content]().Fields() {
		if tag := f.Tag.Get("json"); tag != ",omitempty" {
			t.Errorf("%s has the tag %q, want omitempty", f.Name, tag)
		}
	}
}
