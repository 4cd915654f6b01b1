package delivery_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
)

// What is said of a message's length is what its room gets.
func TestShape_IsWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, withParts)
		r.Start()
		synctest.Wait()
		app := r.NewApp("a", "!a:hs")
		text := func(n int) string { return strings.Repeat("x", n) }
		for _, tt := range []struct {
			name    string
			request post.Draft
			split   bool
		}{
			{"short", post.Draft{Content: post.Content{Body: "text"}, Thread: "t"}, false},
			{"nearly an event", post.Draft{Content: post.Content{Body: text(44_300), ContentType: format.Plain}}, false},
			{"with a note", post.Draft{Content: post.Content{Body: text(44_300), ContentType: format.Plain, Note: text(2000)}}, true},
			{"in a thread", post.Draft{Content: post.Content{Body: text(44_300), ContentType: format.Plain}, Thread: "t"}, true},
			{"a short body that uses a long link many times", post.Draft{Content: post.Content{Body: strings.Repeat("[a] ", 700) + "\n\n[a]: https://example.org/" + text(3000) + "\n"}}, true},
		} {
			before := len(r.HS.Bodies("!a:hs"))
			tt.request.Token = app.Token
			a := r.Send(tt.request)
			m := r.Await(a.ID, post.StateSent)
			r.Drained()
			want := len(r.HS.Bodies("!a:hs")) - before
			events, file, err := r.Shape(ctx, m)
			got := events
			if file {
				got++
			}
			if err != nil || got != want || (got > 1) != tt.split {
				t.Errorf("%s: %d events, file %v, %v; the room has %d", tt.name, events, file, err, want)
			}
		}
	})
}
