package web

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"slipway/relay/internal/account"
	"slipway/relay/internal/doctor"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

const room = "!room:example.org"

// browser is a visitor without script: it keeps cookies and fills in forms.
type browser struct {
	*testing.T
	service *service.Service
	hs      *relaytest.Homeserver
	base    string
	client  *http.Client
	status  int
	header  http.Header
	at      string // path after redirects
	page    string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	return newBrowserWith(t, func(*Options) {})
}

func newBrowserWith(t *testing.T, change func(*Options)) *browser {
	t.Helper()
	s, hs := relaytest.New(t, func(o *service.Options) {
		o.Accounts.SecretKey, o.Limits.MaxAttachments = []byte("a pickle key of the tests"), 1<<20
	})
	hs.Has(matrix.RoomInfo{RoomID: room, Name: "Operations", Joined: true, Writable: true})
	o := Options{Service: s, Doctor: doctor.Target{Service: s, Probe: hs.Probe, Identity: hs.Identity}, AdminName: relaytest.AdminName, Homeserver: "https://hs.example.org", Version: "v1.2.3"}
	change(&o)
	pages, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(pages)
	t.Cleanup(srv.Close)
	b := &browser{T: t, service: s, hs: hs, base: srv.URL}
	b.forget()
	return b
}

// forget drops the cookies.
func (b *browser) forget() {
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.client = &http.Client{Jar: jar}
}

func (b *browser) do(req *http.Request, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	b.status, b.header, b.page, b.at = resp.StatusCode, resp.Header, string(text), resp.Request.URL.RequestURI()
}

func (b *browser) get(path string) {
	b.Helper()
	b.do(http.NewRequestWithContext(b.Context(), http.MethodGet, b.base+path, nil))
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// post sends a form with the session's word, as the page at hand has it.
func (b *browser) post(path string, pairs ...string) {
	b.Helper()
	form := url.Values{}
	if m := csrfField.FindStringSubmatch(b.page); m != nil {
		form.Set("csrf", m[1])
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.base+path, strings.NewReader(form.Encode()))
	if err == nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	b.do(req, err)
}

func (b *browser) login(name, password string) {
	b.Helper()
	b.get("/ui/login")
	b.post("/ui/login", "name", name, "password", password)
}

// want checks the status of the page at hand and what is on it; what begins
// with "-" must not be.
func (b *browser) want(status int, texts ...string) {
	b.Helper()
	if b.status != status {
		b.Fatalf("%s: %d, want %d\n%s", b.at, b.status, status, b.page)
	}
	for _, text := range texts {
		if not, absent := strings.CutPrefix(text, "-"); absent {
			if strings.Contains(b.page, not) {
				b.Errorf("%s shows %q", b.at, not)
			}
		} else if !strings.Contains(b.page, text) {
			b.Errorf("%s does not show %q:\n%s", b.at, text, b.page)
		}
	}
}

func (b *browser) admin() { b.Helper(); b.login(relaytest.AdminName, relaytest.AdminPassword) }

// app makes an application past the pages.
func (b *browser) app(name, room string) account.IssuedToken {
	b.Helper()
	v, err := b.service.Authenticate(b.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		b.Fatal(err)
	}
	issued, err := b.service.CreateApplication(b.Context(), v, account.ApplicationInput{Name: &name, Room: &room})
	if err != nil {
		b.Fatal(err)
	}
	return issued
}

// send accepts a message and returns the path of its page.
func (b *browser) send(app account.IssuedToken, title, text string) string {
	b.Helper()
	a, err := b.service.Accept(b.Context(), post.Draft{Token: app.Token, Content: post.Content{Title: title, Body: text}})
	if err != nil {
		b.Fatal(err)
	}
	return "/ui/messages/" + strconv.FormatInt(a.ID, 10)
}
