package docpages

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

var files = fstest.MapFS{
	"README.md": {Data: []byte("# Documentation\n\n[Rooms](relay/rooms.md#the-bot-joins), [proxies](../deploy/README.md), [`deploy/proxy`](../deploy/proxy).\n")},
	"relay/rooms.md": {Data: []byte("# Rooms\n\nWhere messages go.\n\n## The bot `joins`, when?\n\nInvite <it>.\n\n" +
		"## Same\n\nA *backup* of keys.\n\n## Same\n\n```sh\nrelay backup <FILE>\n```\n\n| a | b |\n|---|---|\n| cell | quota |\n\n![a room](../pictures/room-light.webp)\n")},
	"registry/backup.md":        {Data: []byte("# Backup\n\nCopy the storage. Quota of a team.\n")},
	"configuration/registry.md": {Data: []byte("# Settings\n\n## log\n\n- <a id=\"log.level\"></a>`log.level` (`info`): Lowest level.\n- <a id=\"log.fields\"></a>`log.fields`: Backup field.\n")},
	"decisions/0001-backup.md":  {Data: []byte("# Backup\n\nLowest cost of a backup.\n")},
	"pictures/room-light.webp":  {Data: []byte("RIFF....WEBP")},
}

func TestPage(t *testing.T) {
	h := New(files, "relay")
	for file, want := range map[string][]string{
		"":                          {`<h1 id="documentation">`, `<a href="relay/rooms.md#the-bot-joins">Rooms</a>, proxies (deploy/README.md), <code>deploy/proxy</code>.`},
		"relay/rooms.md":            {`<h2 id="the-bot-joins-when">`, `<h2 id="same">`, `<h2 id="same-1">`, `>relay backup &lt;FILE&gt;` + "\n</code>", `<div class="across" tabindex="0">`, "<td>quota</td>", `src="../pictures/room-light.webp"`},
		"configuration/registry.md": {`<li id="log.level"><code>log.level</code>`, `<li id="log.fields">`},
	} {
		p, err := h.Page(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(string(p.HTML), text) {
				t.Errorf("%q: no %s in\n%s", file, text, p.HTML)
			}
		}
	}
	p, err := h.Page("relay/rooms.md")
	if err != nil || p.Title != "Rooms" || len(p.Contents) != 3 || p.Contents[0] != (Heading{"The bot joins, when?", "the-bot-joins-when"}) {
		t.Errorf("%+v, %v", p, err)
	}
	for _, file := range []string{"relay", "relay/", "no.md", "../README.md", "relay/../README.md", "/README.md", "pictures/room-light.webp", "pictures"} {
		if _, err := h.Page(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", file, err)
		}
	}
}

func TestServePicture(t *testing.T) {
	h := New(files, "relay")
	serve := func(file, known string) (bool, *httptest.ResponseRecorder) {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Header.Set("If-None-Match", known)
		return h.ServePicture(w, r, file), w
	}
	ok, w := serve("pictures/room-light.webp", "")
	if !ok || w.Code != 200 || w.Header().Get("Content-Type") != "image/webp" || w.Body.Len() == 0 {
		t.Errorf("%v, %d %v", ok, w.Code, w.Header())
	}
	if ok, w := serve("pictures/room-light.webp", w.Header().Get("ETag")); !ok || w.Code != 304 {
		t.Errorf("known: %v, %d", ok, w.Code)
	}
	for _, file := range []string{"pictures/no.webp", "README.md", "../x.svg", "pictures/../pictures/room-light.webp"} {
		if ok, _ := serve(file, ""); ok {
			t.Errorf("%s is a picture", file)
		}
	}
}

func TestSearch(t *testing.T) {
	relay, registry := New(files, "relay"), New(files, "registry")
	for _, test := range []struct {
		h     *Docs
		query string
		want  string // file#anchor of each
	}{
		{relay, "BACKUP", "relay/rooms.md#same relay/rooms.md#same-1 decisions/0001-backup.md# registry/backup.md# configuration/registry.md#log.fields"},
		{registry, "backup", "registry/backup.md# configuration/registry.md#log.fields decisions/0001-backup.md# relay/rooms.md#same relay/rooms.md#same-1"},
		{registry, "quota", "registry/backup.md# relay/rooms.md#same-1"},
		{registry, "level lowest", "configuration/registry.md#log.level"},
		{relay, "rooms invite", "relay/rooms.md#the-bot-joins-when"},
		{relay, "rooms nothing", ""},
		{relay, "  ", ""},
		{relay, strings.Repeat("ä ", 60), ""},
	} {
		hits, err := test.h.Search(test.query)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, hit := range hits {
			got = append(got, hit.File+"#"+hit.Heading.Anchor)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q: %q, want %q", test.query, got, test.want)
		}
	}
}

// A search answers with a bounded number of sections, and bounded parts of them.
func TestSearch_Bounds(t *testing.T) {
	many := fstest.MapFS{}
	for _, name := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		many[name+".md"] = &fstest.MapFile{Data: []byte("# Page\n\n" + strings.Repeat("## Word\n\n"+strings.Repeat("long text with a word é ", 100)+"\n\n", 10))}
	}
	hits, err := New(many, "relay").Search("word")
	if err != nil || len(hits) != maxHits {
		t.Fatalf("%d hits, %v", len(hits), err)
	}
	of := map[string]int{}
	for _, hit := range hits {
		if of[hit.File]++; of[hit.File] > maxPerPage || len(hit.Excerpt) > 220 {
			t.Errorf("%+v", hit)
		}
	}
}
