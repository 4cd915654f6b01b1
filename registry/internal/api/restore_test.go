package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

func TestRestore(t *testing.T) {
	s := newServer(t, func(s *setup) { s.rules.KeepDeleted = time.Hour })
	body := s.image("a/b", "x")
	d := s.pushManifest("a/b", "v1", oci.MediaTypeManifest, body)
	deleted := func() []registry.Deletion {
		var list struct{ Deleted []registry.Deletion }
		if err := json.Unmarshal(s.do("GET", "/v2/a/b/_slipway/deleted", nil).want(t, 200).body, &list); err != nil {
			t.Fatal(err)
		}
		return list.Deleted
	}
	if all := deleted(); len(all) > 0 {
		t.Errorf("deleted is %+v", all)
	}
	s.do("DELETE", "/v2/a/b/manifests/v1", nil).want(t, 202)
	all := deleted()
	if len(all) != 1 || all[0].Tags["v1"] != d || all[0].By != "anonymous" || time.Until(all[0].Until) < 59*time.Minute {
		t.Fatalf("deleted is %+v", all)
	}
	selection := fmt.Sprintf(`{"deletion": %q, "tag": "v1"}`, all[0].ID)
	var restored registry.Restored
	if err := json.Unmarshal(s.do("POST", "/v2/a/b/_slipway/restore", []byte(selection)).want(t, 200).body, &restored); err != nil || restored.Tags["v1"] != d {
		t.Errorf("restored %+v, %v", restored, err)
	}
	s.do("GET", "/v2/a/b/manifests/v1", nil).want(t, 200)
	s.do("POST", "/v2/a/b/_slipway/restore", []byte(selection)).want(t, 404)

	s.do("DELETE", "/v2/a/b/_slipway/repository", nil).want(t, 202)
	s.do("POST", "/v2/a/b/_slipway/restore", nil).want(t, 200)
	s.do("GET", "/v2/a/b/manifests/v1", nil).want(t, 200)

	for _, bad := range []string{`{`, `{"tag": "../x"}`, `{"digest": "sha256:x"}`, `{"more": 1}`, `{"deletion": "` + strings.Repeat("x", maxBody) + `"}`} {
		s.do("POST", "/v2/a/b/_slipway/restore", []byte(bad)).want(t, 400)
	}
}

func TestTagHistory(t *testing.T) {
	s := newServer(t)
	one := s.pushManifest("a", "v1", oci.MediaTypeManifest, s.image("a", "x"))
	two := s.pushManifest("a", "v1", oci.MediaTypeManifest, s.image("a", "y"))
	var list struct{ History []registry.Target }
	if err := json.Unmarshal(s.do("GET", "/v2/a/_slipway/tags/v1/history", nil).want(t, 200).body, &list); err != nil {
		t.Fatal(err)
	}
	h := list.History
	if len(h) != 2 || h[0].Digest != two || !h[0].Current || h[1].Digest != one || h[1].Current || !h[1].Available || h[1].By != "anonymous" {
		t.Errorf("history is %+v", h)
	}
	s.do("POST", "/v2/a/_slipway/restore", []byte(fmt.Sprintf(`{"tag": "v1", "digest": %q}`, one))).want(t, 200)
	if got := s.do("HEAD", "/v2/a/manifests/v1", nil).want(t, 200).Header.Get("Docker-Content-Digest"); got != string(one) {
		t.Errorf("v1 points at %s", got)
	}
	s.do("GET", "/v2/a/_slipway/tags/v2/history", nil).want(t, 404)
	s.do("GET", "/v2/a/_slipway/tags/-/history", nil).want(t, 404)
}

// A caller who may only pull gets no names of pushers.
func TestHistoryWithoutNames(t *testing.T) {
	s := newServer(t, fill(t, "a"), withRules(t, allow("anyone", "a", "pull"), allow("u", "a", "push")))
	for user, sees := range map[string]bool{"": false, "u": true} {
		var header []string
		if user != "" {
			header = basic(user, "p")
		}
		a := s.do("GET", "/v2/a/_slipway/tags/v1/history", nil, header...).want(t, 200)
		if got := strings.Contains(string(a.body), `"by":"anonymous"`); got != sees {
			t.Errorf("%q sees names: %v: %s", user, got, a.body)
		}
		if a := s.do("GET", "/v2/a/_slipway/deleted", nil, header...); (a.StatusCode == 200) != sees {
			t.Errorf("%q lists what was deleted: %d", user, a.StatusCode)
		}
	}
}
