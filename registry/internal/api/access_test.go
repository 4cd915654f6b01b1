package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
)

// withRules lets in the user u with the password p, by rules.
func withRules(t *testing.T, list ...access.Rule) func(*setup) {
	t.Helper()
	rules := newRules(t, list...)
	return withAuth(t, func() *access.Rules { return rules })
}

func newRules(t *testing.T, list ...access.Rule) *access.Rules {
	t.Helper()
	rules, err := access.New(nil, list)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func withAuth(t *testing.T, rules func() *access.Rules) func(*setup) {
	t.Helper()
	users := openUsers(t)
	decide := auth.NewAuthorizer(auth.Options{Rules: rules, Logins: &auth.Logins{Htpasswd: users}, Realm: "basic-realm"})
	return func(s *setup) { s.options.Auth = decide }
}

func allow(who, repositories string, rights ...string) access.Rule {
	return access.Rule{Who: []string{who}, Repositories: []string{repositories}, Allow: rights}
}

// fill pushes one image to each repository, before the rules.
func fill(t *testing.T, names ...string) func(*setup) {
	t.Helper()
	return func(s *setup) {
		open := newServer(t, func(x *setup) { x.store = s.store })
		for _, name := range names {
			open.pushManifest(name, "v1", oci.MediaTypeManifest, open.image(name, name))
		}
	}
}

func listed(t *testing.T, body []byte) []string {
	t.Helper()
	var page struct{ Repositories []string }
	if err := json.Unmarshal(body, &page); err != nil {
		t.Fatal(err)
	}
	return page.Repositories
}

func TestRules_CatalogShowsWhatMayBePulled(t *testing.T) {
	s := newServer(t, fill(t, "a", "b/c", "b/d", "secret/x", "z"), withRules(
		t,
		access.Rule{Who: []string{"anyone"}, Repositories: []string{"secret/**"}, Deny: []string{"pull"}},
		allow("anyone", "b/*", "pull", "list"),
		allow("users", "**", "list"),
		allow("u", "a", "pull"), allow("u", "z", "pull"),
	))
	header := []string{"Authorization", rightUser}
	if got := listed(t, s.do("GET", "/v2/_catalog", nil, header...).want(t, 200).body); !slices.Equal(got, []string{"a", "b/c", "b/d", "z"}) {
		t.Errorf("a user sees %v", got)
	}
	if got := listed(t, s.do("GET", "/v2/_catalog?n=1&last=b/c", nil, header...).want(t, 200).body); !slices.Equal(got, []string{"b/d"}) {
		t.Errorf("a user sees %v after b/c", got)
	}
	if challenge := s.do("GET", "/v2/_catalog", nil).want(t, 401).Header.Get("WWW-Authenticate"); !strings.HasPrefix(challenge, "Basic ") {
		t.Errorf("without a login, which would show more: %q", challenge)
	}

	s = newServer(t, fill(t, "a", "b/c"), withRules(t, allow("anyone", "b/*", "pull", "list"), allow("users", "**", "pull")))
	if got := listed(t, s.do("GET", "/v2/_catalog", nil).want(t, 200).body); !slices.Equal(got, []string{"b/c"}) {
		t.Errorf("without a login, which would show the same: %v", got)
	}
}

func TestRules_UnknownAndForbiddenLookTheSame(t *testing.T) {
	s := newServer(t, fill(t, "secret/there"), withRules(t, allow("anyone", "public/**", "pull")))
	layer := string(digestOf([]byte("layer of secret/there")))
	for _, user := range []string{"", rightUser, wrongUser} {
		for _, path := range []string{"/manifests/v1", "/tags/list", "/blobs/" + layer, "/referrers/" + layer} {
			ask := func(name string) string {
				var header []string
				if user != "" {
					header = []string{"Authorization", user}
				}
				got := s.do("GET", "/v2/"+name+path, nil, header...)
				got.Header.Del("X-Request-Id")
				got.Header.Del("Date")
				text := strings.ReplaceAll(got.Status+string(got.body), name, "NAME")
				if got.StatusCode != http.StatusUnauthorized && got.StatusCode != http.StatusForbidden {
					t.Errorf("%q %s%s: %s", user, name, path, got.Status)
				}
				return text + strings.Join(got.Header.Values("WWW-Authenticate"), "")
			}
			if there, missing := ask("secret/there"), ask("secret/gone"); there != missing {
				t.Errorf("%q %s: there %s, missing %s", user, path, there, missing)
			}
		}
	}
}

func TestRules_MountNeedsPullAtTheSource(t *testing.T) {
	s := newServer(t, fill(t, "secret/x", "public/x"), withRules(t, allow("anyone", "public/**", "pull"), allow("u", "mine", "push")))
	for from, want := range map[string]int{"secret/x": 202, "public/x": 201, "nowhere": 202} {
		layer := string(digestOf([]byte("layer of public/x")))
		if from == "secret/x" {
			layer = string(digestOf([]byte("layer of secret/x")))
		}
		s.do("POST", "/v2/mine/blobs/uploads/?mount="+layer+"&from="+from, nil, "Authorization", rightUser).want(t, want)
	}
	// Without a source the registry looks only where the caller may read.
	secret := string(digestOf([]byte(`{"os":"linux","name":"secret/x"}`)))
	s.do("POST", "/v2/mine/blobs/uploads/?mount="+secret, nil, "Authorization", rightUser).want(t, 202)
	s.do("POST", "/v2/public/y/blobs/uploads/?mount="+secret+"&from=public/x", nil, "Authorization", rightUser).wantError(t, 403, oci.CodeDenied)
}

func TestRules_TagMove(t *testing.T) {
	s := newServer(t, fill(t, "a", "b"), withRules(t, allow("u", "**", "push"), allow("u", "b", "tag-move")))
	user := []string{"Authorization", rightUser}
	push := func(name, tag, content string) answer {
		config := []byte(`{"os":"linux","name":"` + content + `"}`)
		d := digestOf(config)
		start := s.do("POST", "/v2/"+name+"/blobs/uploads/", nil, user...).want(t, 202)
		s.do("PUT", with(start.location(t), "digest", string(d)), config, user...).want(t, 201)
		m := `{"schemaVersion":2,"mediaType":"` + oci.MediaTypeManifest + `","config":` + describe("application/vnd.oci.image.config.v1+json", d, len(config)) + `,"layers":[]}`
		return s.do("PUT", "/v2/"+name+"/manifests/"+tag, []byte(m), append(user, "Content-Type", oci.MediaTypeManifest)...)
	}
	before := s.do("HEAD", "/v2/a/manifests/v1", nil, user...).want(t, 200).Header.Get("Docker-Content-Digest")
	push("a", "v2", "one").want(t, 201)
	push("a", "v2", "one").want(t, 201) // the same again moves nothing
	got := push("a", "v1", "one").wantError(t, 403, oci.CodeDenied)
	if !strings.Contains(string(got.body), "tag-move") {
		t.Errorf("%s", got.body)
	}
	s.do("HEAD", "/v2/a/manifests/v1", nil, user...).want(t, 200, "Docker-Content-Digest", before)
	push("b", "v1", "one").want(t, 201)
	s.do("DELETE", "/v2/a/manifests/v2", nil, user...).wantError(t, 403, oci.CodeDenied)
}

// A request is judged by one version of the rules, also if they change meanwhile.
func TestRules_OneVersionJudgesARequest(t *testing.T) {
	var asked atomic.Int32
	open, _ := access.New(nil, []access.Rule{allow("anyone", "**", "pull", "list")})
	closed, _ := access.New(nil, []access.Rule{allow("nobody", "**", "pull")})
	s := newServer(t, fill(t, "a", "b", "c"), withAuth(t, func() *access.Rules {
		if asked.Add(1) > 1 {
			return closed
		}
		return open
	}))
	if got := listed(t, s.do("GET", "/v2/_catalog", nil).want(t, 200).body); len(got) != 3 {
		t.Errorf("half of the catalog: %v", got)
	}
	s.do("GET", "/v2/a/manifests/v1", nil).wantError(t, 401, oci.CodeUnauthorized)
}
