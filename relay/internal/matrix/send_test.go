package matrix

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"maunium.net/go/mautrix/crypto/attachment"
	"slipway/relay/internal/servertest"
)

func TestSendIsReadByTheOwner(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	first, err := w.send(room, "t1", "one")
	w.must(err)
	again, err := w.send(room, "t1", "one")
	w.must(err)
	if first != again {
		t.Errorf("the same transaction made %s and %s", first, again)
	}
	w.wantBodies(room, "one")

	_, err = w.bot.Redact(w.ctx, Redaction{RoomID: room, EventID: first, TxnID: "t2", Device: w.bot.Device(), Reason: "mistake"})
	w.must(err)
	w.wantBodies(room, "")
	w.noSecrets("bot-password", w.bot.session.Load().Token, "one")
}

// What may not be done with a message in its room is named as what it is.
func TestRefusedBehindTheMessage(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.ownersRoom(map[string]any{"preset": "public_chat", "power_level_content_override": map[string]any{"events": map[string]any{"m.room.redaction": 50}}})
	w.must(w.bot.Join(w.ctx, room))
	event, err := w.send(room, "t1", "stays")
	w.must(err)
	redact := func(event, txn string) *SendError {
		t.Helper()
		_, err := w.bot.Redact(w.ctx, Redaction{RoomID: room, EventID: event, TxnID: txn, Device: w.bot.Device()})
		var failed *SendError
		if !errors.As(err, &failed) || failed.Class != ClassBlock && failed.Class != ClassDead {
			t.Fatalf("the redaction is answered with %v", err)
		}
		return failed
	}
	if failed := redact(event, "t2"); !strings.Contains(failed.Reason, "may not remove events") {
		t.Errorf("it is told as %v", failed)
	}
	if failed := redact("$of-another-room", "t3"); strings.Contains(failed.Reason, "post") {
		t.Errorf("it is told as %v", failed)
	}
	for name, fault := range map[string]servertest.Fault{
		"no room for files": servertest.Matrix(403, "M_FORBIDDEN"),
		"no media":          servertest.Matrix(404, "M_UNRECOGNIZED"),
	} {
		w.proxy.Script(servertest.Rule{Path: "/upload", Fault: fault})
		_, err := w.bot.Upload(w.ctx, Upload{Name: "x.txt", MimeType: "text/plain", Content: strings.NewReader("x"), Size: 1, Encrypt: true})
		if failed := w.wantClass(err, ClassDead); !strings.Contains(failed.Reason, "files") {
			t.Errorf("%s is told as %v", name, failed)
		}
	}
	// Not where nothing else is answered either: the file waits.
	unknown := servertest.Matrix(404, "M_UNRECOGNIZED")
	w.proxy.Script(servertest.Rule{Path: "/upload", Fault: unknown}, servertest.Rule{Path: "/whoami", Fault: unknown})
	_, err = w.bot.Upload(w.ctx, Upload{Name: "x.txt", MimeType: "text/plain", Content: strings.NewReader("x"), Size: 1, Encrypt: true})
	w.wantClass(err, ClassAway)
}

func TestRefusalsAreClassified(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	_, err := w.send(room, "warm", "up")
	w.must(err)
	for _, tt := range []struct {
		name  string
		fault servertest.Fault
		class Class
		wait  time.Duration
	}{
		{"429 header", servertest.Matrix(429, "M_LIMIT_EXCEEDED", "Retry-After", "7"), ClassWait, 7 * time.Second},
		{"429 body", servertest.Answer(429, `{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":2500}`), ClassWait, 2500 * time.Millisecond},
		{"429 both", servertest.Answer(429, `{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":9100}`, "Retry-After", "9"), ClassWait, 9100 * time.Millisecond},
		{"429 neither", servertest.Matrix(429, "M_LIMIT_EXCEEDED"), ClassWait, defaultWait},
		{"429 a day", servertest.Matrix(429, "M_LIMIT_EXCEEDED", "Retry-After", "86400"), ClassWait, maxWait},
		{"429 negative", servertest.Answer(429, `{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":-5}`, "Retry-After", "-3"), ClassWait, defaultWait},
		{"429 nonsense", servertest.Answer(429, `{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":"soon"}`, "Retry-After", "1"), ClassWait, time.Second},
		{"429 web page", servertest.Answer(429, "<html>slow down</html>", "Retry-After", "3"), ClassWait, 3 * time.Second},
		{"500", servertest.Matrix(500, "M_UNKNOWN"), ClassRetry, 0},
		{"503", servertest.Matrix(503, "M_UNKNOWN"), ClassAway, 0},
		{"502 web page", servertest.Answer(502, "<html>"), ClassAway, 0},
		{"404 web page", servertest.Answer(404, "<html>not found</html>"), ClassAway, 0},
		{"401 web page", servertest.Answer(401, "Unauthorized"), ClassAway, 0},
		{"redirect", servertest.Answer(301, "", "Location", "https://elsewhere.example/"), ClassAway, 0},
		{"unrecognized", servertest.Matrix(404, "M_UNRECOGNIZED"), ClassAway, 0},
		{"too large", servertest.Matrix(413, "M_TOO_LARGE"), ClassTooLarge, 0},
		{"too large for a proxy", servertest.Answer(413, "<html>"), ClassTooLarge, 0},
		{"bad JSON", servertest.Matrix(400, "M_BAD_JSON"), ClassDead, 0},
		{"forbidden", servertest.Matrix(403, "M_FORBIDDEN"), ClassBlock, 0},
		{"locked", servertest.Answer(401, `{"errcode":"M_USER_LOCKED","soft_logout":true}`), ClassLocked, 0},
		{"deactivated", servertest.Matrix(403, "M_USER_DEACTIVATED"), ClassLocked, 0},
		{"dropped", servertest.Drop(), ClassRetry, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{T: t, ctx: w.ctx, proxy: w.proxy, bot: w.bot}
			// A homeserver that is away is so for every request.
			w.proxy.Script(servertest.Rule{Method: "PUT", Path: "/send/", Fault: tt.fault}, servertest.Rule{Path: "/whoami", Fault: tt.fault})
			w.proxy.Forget()
			_, err := w.send(room, "t", "never")
			failed := w.wantClass(err, tt.class)
			if failed.RetryAfter != tt.wait {
				t.Errorf("wait %v, want %v", failed.RetryAfter, tt.wait)
			}
			if n := len(w.proxy.Records("/send/")); tt.name != "dropped" && n != 1 {
				t.Errorf("%d requests, want one: retries are the caller's business", n)
			}
		})
	}
	w.proxy.Script(servertest.Rule{Method: "PUT", Path: "/send/", Fault: servertest.Answer(405, "<html>PUT is not allowed</html>")})
	_, err = w.send(room, "t", "never")
	w.wantClass(err, ClassRetry) // the homeserver is there, this request fails
	w.proxy.Script()
	w.wantBodies(room, "up")
	w.proxy.Down()
	_, err = w.send(room, "t", "never")
	w.wantClass(err, ClassAway)
}

// TestAwayForOneRoom: what fails for one room while the homeserver answers otherwise,
// as inviting somebody of a server that is away, holds up no other room.
func TestAwayForOneRoom(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	for path, ask := range map[string]func() error{
		"/invite":          func() error { return w.bot.invite(w.ctx, room, "@"+w.name+"guest:localhost") },
		"/createRoom":      func() error { _, err := w.bot.Create(w.ctx, NewRoom{Name: "x"}); return err },
		"/m.room.create":   func() error { return w.bot.checkPredecessor(w.ctx, room, "!old") },
		"/directory/room/": func() error { _, err := w.bot.Resolve(w.ctx, "#x:localhost"); return err },
		"/join/":           func() error { return w.bot.Join(w.ctx, room) },
		"/m.room.encryption": func() error {
			w.bot.rooms.forgetCheck(room)
			_, err := w.send(room, "t", "never")
			return err
		},
		"/upload": func() error {
			_, err := w.bot.Upload(w.ctx, Upload{Name: "x.txt", MimeType: "text/plain", Content: strings.NewReader("x"), Size: 1, Encrypt: true})
			return err
		},
	} {
		for _, status := range []int{502, 503, 504} {
			fault := servertest.Rule{Path: path, Fault: servertest.Matrix(status, "M_UNKNOWN")}
			w.proxy.Script(fault)
			if failed := w.wantClass(ask(), ClassRetry); !failed.Alone {
				t.Errorf("%s: %v is told as a failure of all rooms", path, failed)
			}
			w.proxy.Script(fault, servertest.Rule{Path: "/whoami", Fault: servertest.Matrix(status, "M_UNKNOWN")})
			w.wantClass(ask(), ClassAway)
		}
	}
}

func TestTooLargeForTheHomeserver(t *testing.T) {
	w := newWorld(t)
	w.connect()
	_, err := w.send(w.room(), "t1", strings.Repeat("x", 70_000))
	w.wantClass(err, ClassTooLarge)
}

func TestOddIdentifiersReachTheHomeserver(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	_, err := w.send(room, "a/b?c#d%2Fe +.~!é", "odd")
	w.must(err)
	w.wantBodies(room, "odd")
	for _, id := range []string{"!no/such?room%21:localhost", "!../../x:localhost", "!" + strings.Repeat("A", 43), "!", "nonsense"} {
		_, err := w.send(id, "t", "x")
		w.wantClass(err, ClassJoin)
		w.wantClass(w.bot.Join(w.ctx, id), ClassBlock)
	}
}

func TestFull_RoomsAreSentToInParallel(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	_, err := w.send(room, "warm", "up")
	w.must(err)
	// Each send waits until five are under way; one after the other they would wait forever.
	var together atomic.Int32
	five := make(chan struct{})
	w.proxy.Script(servertest.Rule{Method: "PUT", Path: "/send/", Fault: func(x *servertest.Exchange) {
		if together.Add(1) == 5 {
			close(five)
		}
		select {
		case <-five:
			servertest.Answer(http.StatusOK, `{"event_id":"$x"}`)(x)
		case <-time.After(20 * time.Second):
			servertest.Answer(http.StatusBadRequest, `{"errcode":"M_BAD_JSON","error":"no five sends come together"}`)(x)
		}
	}})
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			if _, err := w.send(room, fmt.Sprint("p", i), "x"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestUpload(t *testing.T) {
	w := newWorld(t)
	w.connect()
	room := w.room()
	const text = "# all of it\n"
	media, err := w.bot.Upload(w.ctx, Upload{RoomID: room, Name: "message é.md", MimeType: "text/markdown", Content: strings.NewReader(text), Size: int64(len(text))})
	w.must(err)
	server, id, _ := strings.Cut(strings.TrimPrefix(media.URI, "mxc://"), "/")
	req, _ := http.NewRequestWithContext(w.ctx, http.MethodGet, w.server.URL+"/_matrix/client/v1/media/download/"+server+"/"+id, nil)
	req.Header.Set("Authorization", "Bearer "+w.owner.Token)
	resp, err := http.DefaultClient.Do(req)
	w.must(err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.Contains(resp.Header.Get("Content-Disposition"), "message") {
		t.Errorf("download of %s: %d %q", media.URI, resp.StatusCode, resp.Header)
	}
}

// A file is as large as the homeserver takes, and the content of an encrypted one is what was sent.
func TestUpload_Limits(t *testing.T) {
	w := newWorld(t)
	w.proxy.Script(servertest.Rule{Path: "/media/config", Fault: servertest.Answer(200, `{"m.upload.size":100}`)})
	w.connect()
	upload := func(size int, encrypt bool) (Media, error) {
		return w.bot.Upload(w.ctx, Upload{RoomID: w.room(), Name: "x", MimeType: "text/plain", Content: strings.NewReader(strings.Repeat("x", size)), Size: int64(size), Encrypt: encrypt})
	}
	_, err := upload(101, true)
	if failed := w.wantClass(err, ClassDead); !strings.Contains(failed.Reason, "100") {
		t.Errorf("a large file: %v", failed)
	}
	if n := w.bot.MaxUpload(); n != 100 {
		t.Errorf("the limit is %d", n)
	}
	for _, size := range []int{1, 100} {
		media, err := upload(size, true)
		w.must(err)
		var file attachment.EncryptedFile
		w.must(json.Unmarshal([]byte("{"+media.Keys+"}"), &file))
		content, err := w.owner.Download(w.ctx, media.URI)
		w.must(err)
		w.must(file.DecryptInPlace(content))
		if string(content) != strings.Repeat("x", size) {
			t.Errorf("%d bytes come back as %q", size, content)
		}
	}
	broken := errors.New("the disk is away")
	_, err = w.bot.Upload(w.ctx, Upload{RoomID: w.room(), Name: "x", Content: io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), Size: 5, Encrypt: true})
	if failed := w.wantClass(err, ClassRetry); !errors.Is(failed, broken) || !failed.Alone {
		t.Errorf("content that cannot be read: %v", failed)
	}
	w.proxy.Script(servertest.Rule{Path: "/upload", Fault: servertest.Answer(413, "<html>")})
	_, err = upload(10, true)
	w.wantClass(err, ClassDead)
}
