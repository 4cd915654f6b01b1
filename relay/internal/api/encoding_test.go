package api

import (
	"bytes"
	"compress/gzip"
	"testing"

	"slipway/relay/internal/protocol/webhook"
)

// Bodies come compressed, and with a byte order mark.
func TestBodyEncodings(t *testing.T) {
	w := newWorldFor(t, nil, webhook.Generic())
	token := w.app(named("a")).Token
	zip := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return b.String()
	}
	const body = `{"message":"m"}`
	for _, path := range []string{"/message?token=" + token, "/hook/generic/" + token} {
		w.want("gzip", w.ask("POST", path, zip(body), "Content-Encoding: gzip", isJSON), 200)
		w.want("a mark", w.ask("POST", path, "\xef\xbb\xbf"+body, isJSON), 200)
		w.want("a mark, no type", w.ask("POST", path, "\xef\xbb\xbf"+body), 200)
		w.want("both", w.ask("POST", path, zip("\xef\xbb\xbf"+body), "Content-Encoding: GZIP", isJSON), 200)
		w.want("no gzip", w.ask("POST", path, body, "Content-Encoding: gzip", isJSON), 400)
		w.want("cut off", w.ask("POST", path, zip(body)[:20], "Content-Encoding: gzip", isJSON), 400)
		w.want("another encoding", w.ask("POST", path, body, "Content-Encoding: br", isJSON), 415)
		w.want("a bomb", w.ask("POST", path, zip(body+string(make([]byte, 10<<20))), "Content-Encoding: gzip", isJSON), 413)
	}
	w.want("with the token in it", w.ask("POST", "/message", zip(`{"token":"`+token+`","message":"m"}`), "Content-Encoding: gzip", isJSON), 200)
	w.want("words", w.ask("POST", "/message?token="+token, `{"title":95,"message":{"Disk full":"95% used"}}`, isJSON), 200, "title", "95", "message", "Disk full: 95% used")
	w.want("no words", w.ask("POST", "/message?token="+token, `{"message":{}}`, isJSON), 400)
}
