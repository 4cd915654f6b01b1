package pages

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"slipway/registry/e2e/harness"
	"slipway/shared/browsertest"
	"slipway/shared/oidctest"
)

// TestTeam: an anonymous visitor, a reader, a developer and an administrator see and do what they may, in a
// browser that runs no script.
func TestTeam(t *testing.T) {
	team(t, files(t))
}

func TestFull_TeamOnMinIO(t *testing.T) { team(t, bucket(t)) }

func team(t *testing.T, storage string) {
	x := start(t, storage, nothing)
	stock(t, x)
	b := visit(t, x)
	b.WithoutScript()
	b.Get("/ui/")
	b.seesNot("public/base", "web/", "secret")
	b.Get("/ui/repository/web/app")
	b.seesNot("404", "1.0")

	b.login("carl")
	b.Get("/ui/?q=app")
	b.seesNot("web/app", "secret")
	b.Get("/ui/image/web/app:1.0")
	b.seesNot("linux/arm64", "Set tag", "Delete the")
	b.Sees("docker pull " + x.Addr + "/web/app:1.0")
	b.Get("/ui/image/public/base:1.0")
	b.Sees("protected")
	b.Get("/ui/compare/web/app?a=1.0&b=1.1")
	b.Sees("Only in 1.1")
	b.logout()

	b.login("bob")
	b.Get("/ui/image/web/app:1.0")
	b.Fill("#tag", "stable")
	b.Click("form.actions button")
	b.Sees("The tag is set.")
	b.Fill("#to", "web/copy")
	b.Fill("#tag", "1.0")
	b.Click("form.actions button")
	b.Sees("web/copy")
	// The wrong tag is deleted, and comes back.
	b.Get("/ui/delete/web/app:stable")
	b.Sees("It can be restored for 2 days.")
	b.Click("button.bad")
	b.Sees("Deleted.")
	b.Click("main button.primary")
	b.Sees("Restored.")
	b.Sees("stable")
	b.Get("/ui/delete/web/intern/tool")
	b.Click("button.bad")
	b.Sees("The whole repository")
	b.Click("main button.primary")
	b.Sees("Restored.")
	b.Sees("1.1")
	b.Get("/ui/history/web/app:stable")
	b.Sees("bob")
	b.Get("/ui/robots")
	b.Sees("404")
	b.logout()

	b.login("alice")
	b.Get("/ui/")
	b.Sees("secret/plans")
	b.Get("/ui/access?repository=web/app&who=bob")
	b.Sees("Why bob may or may not")
	b.Get("/ui/maintenance")
	b.Sees("uploads delete")
	// Jobs run without a schedule, and their results appear.
	for row, did := range map[string]string{"garbage-collect": "freed, 0 problems", "verify": "0 findings open"} {
		b.Click("input[value=" + row + "] + button")
		b.Sees("The run is requested")
		b.reloadsUntil("/ui/maintenance", did)
	}
	b.Get("/ui/retention")
	b.Sees("web/app:1.1")
	b.Click("main button.bad")
	b.Sees("The run is requested")
	b.reloadsUntil("/ui/maintenance", "2 tags deleted")
	b.Get("/ui/repository/web/app")
	b.seesNot("1.0", "1.1")
	b.Get("/ui/audit?q=maintenance")
	b.Sees("retention apply")
	b.Get("/ui/trash/web/app")
	b.Sees("1.1")
	b.Get("/ui/tokens")
	b.Sees("Nobody has a token.")
	b.Get("/ui/users")
	b.Fill("#name", "erin")
	b.Click("form.form button.primary")
	b.Sees("Copy the password now")
	password := strings.TrimSpace(browsertest.In(b.Browser, chromedp.Text("#user-secret")))
	login := func() bool {
		resp, _ := harness.Fetch(t, http.MethodGet, "http://"+x.Addr+"/v2/", harness.BasicAuth("erin", password), nil)
		return resp.StatusCode == http.StatusOK
	}
	if !login() {
		t.Error("a new user can't log in")
	}
	b.Click("form[action$='erin/disable'] button")
	b.Sees("Disable erin?")
	b.Click("main button.bad")
	b.Sees("Changed.")
	if login() {
		t.Error("a disabled user logs in")
	}
	b.Get("/ui/robots")
	b.Fill("#name", "ci")
	b.Fill("#repositories", "web/**")
	b.Click("#allow-push")
	b.Click("form.form button.primary")
	b.Sees("robot+ci")
	secret := strings.TrimSpace(browsertest.In(b.Browser, chromedp.Text("#robot-secret")))
	harness.RunTool(t, "crane", "auth", "login", "--insecure", x.Addr, "-u", "robot+ci", "-p", secret)
}

// TestProvider: people of a real provider log in, have the rights of their groups, and pull with a
// personal access token.
func TestProvider(t *testing.T) {
	x := start(t, files(t), provider(t))
	stock(t, x)
	b := visit(t, x)
	login := func(who string) {
		t.Helper()
		b.Get("/ui/login?next=/ui/repository/web/app")
		b.Sees("Log in with Example ID")
		b.Click(".provider a")
		oidctest.LogIn(b.Browser, who)
	}
	login("dora@developers")
	b.Sees("oidc:dora")
	b.Sees("1.0")
	b.Get("/ui/image/web/app:1.0")
	b.Sees("Set tag")
	b.Get("/ui/account")
	b.Sees("developers")
	b.Fill("#note", "laptop")
	b.Click("form.form button.primary")
	b.Sees("Copy the token now")
	token := strings.TrimSpace(browsertest.In(b.Browser, chromedp.Text("#token-secret")))
	status := func(method, path string) int {
		t.Helper()
		resp, _ := harness.Fetch(t, method, "http://"+x.Addr+path, harness.BasicAuth("oidc+dora", token), nil)
		return resp.StatusCode
	}
	// The token is for pulls, at the registry and at its token service.
	for path, want := range map[string]int{"/v2/web/app/tags/list": 200, "/v2/secret/plans/tags/list": 403, "/auth/token?scope=repository:web/app:pull,push": 200} {
		if got := status(http.MethodGet, path); got != want {
			t.Errorf("GET %s with a personal access token: %d, want %d", path, got, want)
		}
	}
	if got := status(http.MethodDelete, "/v2/web/app/manifests/1.0"); got != http.StatusForbidden {
		t.Errorf("a token for pulls deletes: %d", got)
	}
	b.Click("form[action$=revoke] button")
	b.Sees("Revoke the token")
	b.Click("main button.bad")
	b.Sees("Revoked.")
	if got := status(http.MethodGet, "/v2/web/app/tags/list"); got != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d", got)
	}
	// Another browser can't finish a login that was begun elsewhere.
	b.Get("/ui/login/callback?code=guess&state=guess")
	b.Sees("This login was not begun in this browser")
}

// TestForEverybody looks at every page on a desk and on a phone, light and dark: nothing overflows, everything
// has a name and enough contrast, and nothing that was pushed is run.
func TestForEverybody(t *testing.T) {
	x := start(t, files(t), nothing)
	stock(t, x)
	harness.DeleteReference(t, harness.AsAlice(x.Addr), "public/base", "1.1")
	robot := strings.NewReader(`{"name":"ci","repositories":["web/**"],"allow":["push"],"note":"of the pipeline"}`)
	if resp, body := harness.Fetch(t, http.MethodPost, "http://"+harness.AsAlice(x.Addr)+"/v2/_slipway/robots", http.Header{"Content-Type": {"application/json"}}, robot); resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s", resp.Status, body)
	}
	b := visit(t, x)
	look := func(path, where string) {
		t.Helper()
		b.Get(path)
		for _, fault := range b.Faults() {
			t.Errorf("%s, %s: %s", path, where, fault)
		}
		if browsertest.In(b.Browser, chromedp.Evaluate[bool]("[...document.querySelectorAll('nav')].some(nav => nav.scrollWidth > nav.clientWidth)")) {
			t.Errorf("%s, %s: a menu scrolls sideways", path, where)
		}
		if browsertest.In(b.Browser, chromedp.Evaluate[bool]("window.evil !== undefined")) {
			t.Errorf("%s runs what was pushed", path)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		b.Window(390, 800, scheme)
		look("/ui/login", scheme)
	}
	b.login("alice")
	pages := []string{
		"/ui/", "/ui/?q=nothing", "/ui/?in=web/", "/ui/repository/web/app", "/ui/repository/web/app?sort=size", "/ui/image/web/app:1.0", "/ui/image/web/app:evil", "/ui/image/web/app:sbom",
		"/ui/compare/web/app?a=1.0&b=1.1", "/ui/compare/web/app?a=1.0&b=evil", "/ui/history/web/app:1.0", "/ui/delete/web/app:1.0", "/ui/delete/web/app", "/ui/untagged/web/app", "/ui/trash", "/ui/trash/public/base",
		"/ui/access", "/ui/access?repository=web/app", "/ui/users", "/ui/robots", "/ui/tokens", "/ui/account", "/ui/usage", "/ui/state", "/ui/maintenance", "/ui/retention", "/ui/audit", "/ui/audit?q=nothing", "/ui/nothing",
		"/ui/help/", "/ui/help/registry/team.md", "/ui/help/configuration/registry.md", "/ui/help/?q=garbage+collection",
	}
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.Window(width, 800, scheme)
			for _, page := range pages {
				look(page, fmt.Sprintf("%d, %s", width, scheme))
			}
		}
	}
}

// TestScript: the scripts copy and remember light or dark, under the policy of the pages, and nothing else needs them.
func TestScript(t *testing.T) {
	x := start(t, files(t), nothing)
	stock(t, x)
	b := visit(t, x)
	b.login("carl")
	b.Get("/ui/image/web/app:1.0")
	b.Click("button[data-copy=pull-docker]")
	b.Sees("Copied")
	b.Window(1280, 800, "light")
	before := background(b)
	browsertest.In(b.Browser, chromedp.Evaluate[bool](`(select => { select.value = "dark"; return select.dispatchEvent(new Event("change")) })(document.querySelector(".theme select"))`))
	dark := background(b)
	b.Get("/ui/")
	if dark == before || background(b) != dark {
		t.Errorf("the background is %s, chosen as dark %s, on the next page %s", before, dark, background(b))
	}
}

func background(b visitor) string {
	return browsertest.In(b.Browser, chromedp.Evaluate[string]("getComputedStyle(document.body).backgroundColor"))
}
