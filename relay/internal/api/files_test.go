package api

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/service"
)

const testAttachments = 1 << 20

func newFilesWorld(t *testing.T, change ...func(*service.Options)) (*world, account.IssuedToken) {
	t.Helper()
	w := newWorldFor(t, func(o *service.Options) {
		o.Limits = service.Limits{MaxAttachments: testAttachments}
		for _, c := range change {
			c(o)
		}
	}, protocol.Pushover(), protocol.Ntfy())
	return w, w.app(named("a"))
}

// form is a multipart form. A name with a slash is a file's.
func form(fields ...string) (body, contentType string) {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for i := 0; i+1 < len(fields); i += 2 {
		if name, file, isFile := strings.Cut(fields[i], "/"); isFile {
			p, _ := m.CreateFormFile(name, file)
			_, _ = p.Write([]byte(fields[i+1]))
		} else {
			_ = m.WriteField(fields[i], fields[i+1])
		}
	}
	_ = m.Close()
	return b.String(), "Content-Type: " + m.FormDataContentType()
}

// uploaded waits for uploads and returns them sorted.
func (w *world) uploaded(n int) (files []string) {
	w.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		w.hs.Mu.Lock()
		files = slices.Sorted(slices.Values(w.hs.Files))
		w.hs.Mu.Unlock()
		if len(files) >= n {
			return files
		}
	}
	w.Fatalf("%d files are uploaded, want %d: %s", len(files), n, w.manage("GET", "/message", "").body)
	return nil
}

// Files of every form arrive, wherever the token is.
func TestAttachments(t *testing.T) {
	w, app := newFilesWorld(t)
	big := strings.Repeat("0123456789", 60_000) // more than a chunk, and than the limit of a body
	medium := big[:30_000]                      // in base64 it is within the limit of a body
	small := "small"
	key := "X-Gotify-Key: " + app.Token
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	n := 0
	for name, tt := range map[string]struct {
		method, path string
		body, kind   string
		headers      []string
		want         []string
	}{
		"token in a header":           {"POST", "/message", "", "", []string{key}, []string{big + "1", small + "1"}},
		"token in the form, first":    {"POST", "/message", "", "", nil, []string{big + "2"}},
		"token in the form, last":     {"POST", "/message", "", "", nil, []string{small + "3"}},
		"JSON":                        {"POST", "/message", `{"attachments":[{"filename":"a","base64":"` + b64(medium+"4") + `"},{"filename":"b","mimetype":"x/y","base64":"` + b64(small+"4") + `"}],"message":"m"}`, isJSON, []string{key}, []string{medium + "4", small + "4"}},
		"JSON with the token in it":   {"POST", "/message", `{"attachments":[{"base64":"` + b64(small+"5") + `"}],"message":"m","token":"` + app.Token + `"}`, isJSON, nil, []string{small + "5"}},
		"Pushover's form in base64":   {"POST", "/1/messages.json", "token=" + app.Token + "&message=m&attachment_type=image/jpeg&attachment_base64=" + url.QueryEscape(b64(medium+"9")), "Content-Type: application/x-www-form-urlencoded", nil, []string{medium + "9"}},
		"Pushover's JSON":             {"POST", "/1/messages.json", `{"token":"` + app.Token + `","message":"m","attachment_base64":"` + b64(small+"10") + `"}`, isJSON, nil, []string{small + "10"}},
		"ntfy's body":                 {"PUT", "/" + app.Token, big + "6", "Content-Type: ", []string{"Filename: a.txt"}, []string{big + "6"}},
		"ntfy's small body":           {"PUT", "/" + app.Token, "\xff\xfe7", "Content-Type: application/x-www-form-urlencoded", nil, []string{"\xff\xfe7"}},
		"ntfy's big body, not text":   {"PUT", "/" + app.Token, "\xff" + big + "8", "Content-Type: ", nil, []string{"\xff" + big + "8"}},
		"a form without a message to": {"POST", "/message", "", "", []string{key}, nil},
	} {
		body, kind, status := tt.body, tt.kind, 200
		switch name {
		case "token in a header":
			body, kind = form("message", "m", "f/a.png", tt.want[0], "g/b.png", tt.want[1])
		case "token in the form, first":
			body, kind = form("token", app.Token, "message", "m", "f/a.png", tt.want[0])
		case "token in the form, last":
			body, kind = form("f/a.png", tt.want[0], "message", "m", "token", app.Token)
		case "a form without a message to":
			body, kind = form("f/a.png", "x")
			status = 400
		}
		w.want(name, w.ask(tt.method, tt.path, body, append(tt.headers, kind)...), status)
		n += len(tt.want)
		got := w.uploaded(n)
		for _, file := range tt.want {
			if !slices.Contains(got, file) {
				t.Errorf("%s: a file is not uploaded", name)
			}
		}
	}
	if got := w.uploaded(n); len(got) != n {
		t.Errorf("%d files are uploaded, want %d", len(got), n)
	}
	if n := w.api.strangers.Held() + w.api.senders.Held(); n != 0 {
		t.Errorf("%d bytes of memory are still taken", n)
	}
}

// The answer and the message name the attachments.
func TestAttachmentsAreShown(t *testing.T) {
	w, app := newFilesWorld(t)
	const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x10\x00\x00\x00\x20\x08\x06\x00\x00\x00"
	body, kind := form("message", "m", "f/../../a\"b.png", png)
	r := w.ask("POST", "/message", body, kind, "X-Gotify-Key: "+app.Token)
	for _, r := range []reply{r, w.ask("GET", "/message/1", "", "X-Gotify-Key: "+app.Token)} {
		w.want("show", r, 200)
		if got := fmt.Sprint(r.fields["attachments"]); got != fmt.Sprintf(`[map[name:a"b.png size:%d type:image/png]]`, len(png)) {
			t.Errorf("attachments: %s", got)
		}
	}
}

func TestAttachments_Refused(t *testing.T) {
	w, app := newFilesWorld(t, func(o *service.Options) { o.MaxUpload = func() int64 { return 900_000 } })
	key := "X-Gotify-Key: " + app.Token
	post := func(headers []string, fields ...string) reply {
		body, kind := form(fields...)
		return w.ask("POST", "/message", body, append(headers, kind)...)
	}
	half := strings.Repeat("x", testAttachments/2+1)
	w.want("over the homeserver's limit", post([]string{key}, "message", "m", "f/a", strings.Repeat("x", 900_001)), 413, "field", "attachments")
	w.want("over the limit together", post([]string{key}, "message", "m", "f/a", half, "f/b", half), 413, "field", "attachments")
	w.want("a text over the limit", post([]string{key}, "message", strings.Repeat("m", 70_000), "f/a", "x"), 413)
	w.want("a wrong token", post([]string{"X-Gotify-Key: wrong"}, "message", "m", "f/a", half), 401)
	w.want("a wrong token in the form", post(nil, "token", "wrong", "message", "m", "f/a", half), 401)
	w.want("no token", post(nil, "message", "m", "f/a", "x"), 401)
	w.want("the token after a big file", post(nil, "f/a", half, "message", "m", "token", app.Token), 413, "field", "attachments")
	w.want("no base64", w.ask("POST", "/message", `{"message":"m","attachments":[{"base64":"?"}]}`, key, isJSON), 400, "field", "attachments")
	w.want("no base64 for Pushover", w.ask("POST", "/1/messages.json", "token="+app.Token+"&message=m&attachment_base64=%3F", "Content-Type: application/x-www-form-urlencoded"), 400)
	w.want("an escaped key", w.ask("POST", "/message", `{"message":"m","attachments":[{"base6\u0034":"0"}]}`, key, isJSON), 400, "field", "attachments")
	many := []string{"message", "m"}
	for i := range service.MaxAttachments + 1 {
		many = append(many, fmt.Sprint("f/", i), "x")
	}
	w.want("too many", post([]string{key}, many...), 400, "field", "attachments")
	w.want("too many, and no token before them", post(nil, append(many, "token", app.Token)...), 400, "field", "attachments")
	many = []string{"message", "m", "token", "wrong"}
	for range 900 {
		many = append(many, "f/a", "")
	}
	w.want("too many without a valid token", post(nil, many...), 401)
	w.want("too many without a token", post(nil, append([]string{"message", strings.Repeat("m", 50_000)}, many[4:]...)...), 400, "field", "attachments")
	base64 := `{"message":"m","attachments":[` + strings.TrimSuffix(strings.Repeat(`{"base64":""},`, service.MaxAttachments+1), ",") + `]}`
	w.want("too many in JSON", w.ask("POST", "/message", base64, isJSON, key), 400, "field", "attachments")
	if r := w.ask("POST", "/message", `{"message":"m","attachments":[{"base64":"`+strings.Repeat("0", 64<<10)+`"}]}`, isJSON, key); r.status != 413 || !strings.Contains(r.body, "limits.body") {
		t.Errorf("too large in JSON: %d %s", r.status, r.body)
	}
	body, kind := form("message", "m", "f/a", half)
	w.want("cut short", w.ask("POST", "/message", body[:len(body)-100], kind, key), 400)
	w.want("all is well", post([]string{key}, "message", "last", "f/a", "the only one"), 200)
	if got := w.uploaded(1); len(got) != 1 || got[0] != "the only one" {
		t.Errorf("%d files are uploaded", len(got))
	}
	if n := w.api.strangers.Held() + w.api.senders.Held(); n != 0 {
		t.Errorf("%d bytes of memory are still taken", n)
	}
}

// A repetition has the same files under other ids, and other files are another message.
func TestAttachments_Key(t *testing.T) {
	w, app := newFilesWorld(t)
	post := func(content string) reply {
		body, kind := form("message", "m", "f/a", content)
		return w.ask("POST", "/message", body, kind, "X-Gotify-Key: "+app.Token, "Idempotency-Key: k")
	}
	w.want("first", post("one"), 200)
	if r := post("one"); r.status != 200 || r.header.Get("Idempotent-Replay") == "" {
		t.Errorf("a repetition: %d %s", r.status, r.body)
	}
	w.want("other content", post("two"), 409)
	w.uploaded(1)
}

// Without attachments in the settings a file is refused, and a form without one is not.
func TestAttachments_Off(t *testing.T) {
	w := newWorld(t, nil)
	key := "X-Gotify-Key: " + w.app(named("a")).Token
	body, kind := form("message", "m", "f/a", "x")
	w.want("a file", w.ask("POST", "/message", body, kind, key), http.StatusRequestEntityTooLarge)
	body, kind = form("message", "m")
	w.want("a form", w.ask("POST", "/message", body, kind, key), 200)
}
