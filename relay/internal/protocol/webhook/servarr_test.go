package webhook

import (
	"testing"

	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
)

func TestServarr(t *testing.T) {
	d, text := read(t, Servarr(), `{"eventType":"Download","series":{"title":"Show"},"episodes":[{"seasonNumber":1,"episodeNumber":2,"title":"Pilot"}],"release":{"quality":"1080p"},"isUpgrade":true}`)
	if d.Title != "Show: upgraded" || text != "S01E02 Pilot\n1080p" {
		t.Errorf("%q %q", d.Title, text)
	}
	if d, _ := read(t, Servarr(), `{"eventType":"Health","level":"error","message":"no indexer","instanceName":"Radarr"}`); d.Title != "Radarr: health issue" || *d.Priority != 1 {
		t.Errorf("%+v", d)
	}
	if d, _ := read(t, Servarr(), `{"eventType":"Test"}`); d.Body != "test" {
		t.Errorf("%+v", d)
	}
	if _, err := submit(t, Servarr(), protocol.App{}, "{}"); refusal.KindOf(err) != refusal.KindInvalid {
		t.Error(err)
	}
}
