package api

import "testing"

// A POST that a 301 or 302 turned into a GET isn't answered like a message that was accepted.
func TestRedirectedPostIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	token := w.app(named("a")).Token
	key, bearer, basic := "X-Gotify-Key: "+token, "Authorization: Bearer "+token, basicHeader("", token)
	for _, path := range []string{"/message", "/alert"} {
		for what, r := range map[string]reply{
			"in the query":          w.ask("GET", path+"?token="+token, ""),
			"X-Gotify-Key":          w.ask("GET", path, "", key),
			"X-Gotify-Key, JSON":    w.ask("GET", path, "", key, "Accept: application/json"),
			"Bearer":                w.ask("GET", path, "", bearer, "Accept: */*"),
			"Bearer of axios":       w.ask("GET", path, "", bearer, "Accept: application/json, text/plain, */*"),
			"Basic":                 w.ask("GET", path, "", basic),
			"with its fields":       w.ask("GET", path+"?title=t&message=m&priority=5", "", bearer),
			"HEAD":                  w.ask("HEAD", path, "", bearer),
			"with a slash too many": w.ask("GET", path+"/", "", bearer),
		} {
			w.want(path+" "+what, r, 403)
		}
		w.want(path+" to a reader", w.ask("GET", path, "", bearer, "Accept: application/json"), 200)
		w.want(path+" with a filter", w.ask("GET", path+"?limit=5", "", basic), 200)
		w.want(path+" to a user", w.manage("GET", path, ""), 200)
	}
	w.want("a client", w.gotify(admin).ask("GET", "/message", ""), 200)
	w.want("a wrong token", w.ask("GET", "/message?token=Awrong", ""), 401)
}

// ntfy's clients post JSON to the root, where a GET shows the pages, and to a topic.
func TestRedirectedPostIsRefused_Ntfy(t *testing.T) {
	w, token := newNtfyWorld(t)
	for _, scheme := range []string{"Bearer", "bearer"} {
		w.want("JSON", w.ask("GET", "/", "", "Authorization: "+scheme+" "+token), 403)
	}
	w.want("a topic", w.ask("GET", "/"+token, "", "Authorization: Bearer "+token), 405)
	w.want("a browser behind a proxy with a login", w.ask("GET", "/", "", basicHeader("proxy", "p")), 405) // without pages
}
