package api

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"slipway/relay/internal/account"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// maxTopics is how many topics one subscription may have.
const maxTopics = 10

// ntfyRows returns what ntfy's clients ask for besides publishing: subscriptions, their rights and their account.
func (a *API) ntfyRows() []*row {
	const get, post, options = http.MethodGet, http.MethodPost, http.MethodOptions
	const topics = "{topics:[-_A-Za-z0-9]+(?:,[-_A-Za-z0-9]+)*}"
	var rows []*row
	for _, prefix := range []string{"/ntfy", ""} {
		rows = append(
			rows,
			&row{method: get, path: prefix + "/v1/account", who: viewers, handle: a.getNtfyAccount},
			&row{method: post, path: prefix + "/v1/account/token", who: viewers, handle: a.postNtfyToken},
			&row{method: get, path: prefix + "/v1/stats", who: anybody, handle: a.getNtfyStats},
			&row{method: get, path: prefix + "/" + topics + "/auth", who: viewers, handle: a.getNtfyAuth},
			&row{method: get, path: prefix + "/" + topics + "/{form:json|sse|raw|ws}", who: viewers, handle: a.subscribeNtfy},
			&row{method: options, path: prefix + "/" + topics, who: anybody, handle: allowPages},
			&row{method: options, path: prefix + "/" + topics + "/{rest:.+}", who: anybody, handle: allowPages},
		)
	}
	rows = append(
		rows,
		&row{method: get, path: "/", who: anybody, match: hasBearer, handle: refusePage},
		&row{method: options, path: "/", who: anybody, handle: allowPages},
		&row{method: options, path: "/ntfy", who: anybody, handle: allowPages},
	)
	for _, r := range rows {
		r.fail = protocol.FailNtfy
	}
	return rows
}

// allowPages lets pages of other sites publish and subscribe, as ntfy does: no cookie counts here.
func allowPages(w http.ResponseWriter, _ *http.Request) error {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, PUT, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", "*, Authorization")
	return nil
}

// ntfyReader is what a topic of a subscription stands for.
type ntfyReader struct {
	topic       string
	v           account.Principal
	application int64 // 0 if v is the application
	check       func(context.Context) error
}

// ntfyReaders returns whose messages a request may read: those of the application whose token is the credential, or is the topic; or, for a
// client's token or a user's name and password, those of the applications that the topics name.
func (a *API) ntfyReaders(r *http.Request) ([]ntfyReader, error) {
	topics := strings.Split(mux.Vars(r)["topics"], ",")
	if len(topics) > maxTopics {
		return nil, refusal.Invalid("topic", "invalid request: too many topics")
	}
	if err := protocol.CheckNtfyTopics(topics...); err != nil {
		return nil, err
	}
	token, err := protocol.NtfyCredential(r)
	if err != nil {
		return nil, err
	}
	name, _, _ := r.BasicAuth()
	if token == "" {
		return a.topicsOfTokens(r, topics)
	}
	if account.IsClientToken(token) {
		v, err := a.service.ClientViewer(r.Context(), token)
		if err != nil && name != "" && mayBePassword(r, err) {
			return a.ntfyReadersOfUser(r, topics)
		}
		if err != nil {
			return nil, a.wrongToken(r, err)
		}
		return a.topicsByName(r, topics, v, a.sparingly(func(ctx context.Context) error { return second(a.service.ClientViewer(ctx, token)) }))
	}
	v, err := a.service.TokenViewer(r.Context(), token)
	if err == nil {
		return []ntfyReader{{topics[0], v, 0, a.checkToken(token)}}, nil
	}
	if !mayBePassword(r, err) {
		return nil, a.wrongToken(r, err)
	}
	return a.ntfyReadersOfUser(r, topics)
}

// ntfyReadersOfUser is ntfyReaders for a user's name and password.
func (a *API) ntfyReadersOfUser(r *http.Request, topics []string) ([]ntfyReader, error) {
	v, err := a.user(r)
	if err != nil {
		return nil, err
	}
	v.Admin = false
	return a.topicsByName(r, topics, v, a.authenticator(r, v))
}

func second[T any](_ T, err error) error { return err }

func (a *API) checkToken(token string) func(context.Context) error {
	return a.sparingly(func(ctx context.Context) error { return second(a.service.TokenViewer(ctx, token)) })
}

// topicsOfTokens takes each topic for the token of an application.
func (a *API) topicsOfTokens(r *http.Request, topics []string) (all []ntfyReader, err error) {
	known := map[int64]bool{}
	for _, topic := range topics {
		v, err := a.service.TokenViewer(r.Context(), topic)
		if err != nil {
			return nil, a.wrongToken(r, err)
		}
		if !known[v.ApplicationID] {
			known[v.ApplicationID] = true
			all = append(all, ntfyReader{topic, v, 0, a.checkToken(topic)})
		}
	}
	return all, nil
}

// topicsByName takes each topic for the name of an application that v reads.
func (a *API) topicsByName(r *http.Request, topics []string, v account.Principal, check func(context.Context) error) (all []ntfyReader, err error) {
	apps, err := a.service.Applications(r.Context(), v)
	if err != nil {
		return nil, err
	}
	byName := map[string]int64{}
	for _, app := range apps {
		byName[topicOfName(app.Name)] = app.ID
	}
	known := map[int64]bool{}
	for _, topic := range topics {
		id := byName[strings.ToLower(topic)]
		if id == 0 {
			return nil, refusal.Forbidden("forbidden: a topic is the name of one of your applications, with - for what a topic can't hold")
		}
		if !known[id] {
			known[id] = true
			all = append(all, ntfyReader{topic, v, id, check})
		}
	}
	return all, nil
}

// topicOfName returns the topic that stands for an application's name.
func topicOfName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// getNtfyAuth reports whether the topics may be read.
func (a *API) getNtfyAuth(w http.ResponseWriter, r *http.Request) error {
	if _, err := a.ntfyReaders(r); err != nil {
		return err
	}
	_ = allowPages(w, r)
	request.WriteJSON(w, http.StatusOK, done{true})
	return nil
}

// ntfyName returns the name of the caller, by any credential of ntfy's clients; "" for nobody.
func (a *API) ntfyName(r *http.Request) (name, token string, err error) {
	token, err = protocol.NtfyCredential(r)
	if err != nil || token == "" {
		return "", "", err
	}
	var v account.Principal
	if account.IsClientToken(token) {
		v, err = a.service.ClientViewer(r.Context(), token)
	} else {
		v, err = a.service.TokenViewer(r.Context(), token)
	}
	if mayBePassword(r, err) {
		v, err = a.user(r)
		token = ""
	}
	if err != nil {
		return "", "", a.wrongToken(r, err)
	}
	return v.Name, token, nil
}

// ntfyMessages is the daily limit that clients are told. There is none of this kind here.
const ntfyMessages = 1_000_000

// getNtfyAccount answers with the account as Home Assistant and ntfy's apps read it.
func (a *API) getNtfyAccount(w http.ResponseWriter, r *http.Request) error {
	name, _, err := a.ntfyName(r)
	if err != nil {
		return err
	}
	role, basis, files := "user", "tier", a.service.MaxAttachments()
	if name == "" {
		role, basis = "anonymous", "ip"
	}
	_ = allowPages(w, r)
	return answer(w, map[string]any{
		"username": cmp.Or(name, "*"), "role": role,
		"limits": map[string]any{
			"basis": basis, "messages": ntfyMessages, "messages_expiry_duration": 43200, "emails": 0, "calls": 0, "reservations": 0,
			"attachment_total_size": files, "attachment_file_size": files, "attachment_expiry_duration": 43200, "attachment_bandwidth": files,
		},
		"stats": map[string]any{
			"messages": 0, "messages_remaining": ntfyMessages, "emails": 0, "emails_remaining": 0, "calls": 0, "calls_remaining": 0,
			"reservations": 0, "reservations_remaining": 0, "attachment_total_size": 0, "attachment_total_size_remaining": files,
		},
	}, nil)
}

// postNtfyToken answers a client that wants a token for its name and password with the token that was the password: Home Assistant logs in so.
func (a *API) postNtfyToken(w http.ResponseWriter, r *http.Request) error {
	name, token, err := a.ntfyName(r)
	switch {
	case err != nil:
		return err
	case name == "":
		return &refusal.Error{Kind: refusal.KindUnauthorized, Field: "token", Message: "unauthorized"}
	case token == "":
		return refusal.Forbidden("forbidden: log in with an application's token as the password")
	}
	return answer(w, map[string]any{"token": token, "last_access": time.Now().Unix(), "last_origin": "", "expires": 0}, nil)
}

func (a *API) getNtfyStats(w http.ResponseWriter, r *http.Request) error {
	_ = allowPages(w, r)
	return answer(w, map[string]any{"messages": 0, "messages_rate": 0}, nil)
}

// ntfyQuery is what a subscription asks for.
type ntfyQuery struct {
	poll, scheduled bool
	since           string // all, latest, none, an id or a time
	after           int64  // the id
	from            time.Time

	id, title, message string
	tags               []string
	priorities         []int
}

func ntfyQueryOf(r *http.Request) (q ntfyQuery, err error) {
	get := func(names ...string) string { return protocol.NtfyParameter(r, names...) }
	q.poll, q.scheduled = protocol.IsYes(get("X-Poll", "Poll", "po")), protocol.IsYes(get("X-Scheduled", "Scheduled", "sched"))
	q.id, q.title, q.message = get("X-ID", "ID"), get("X-Title", "Title", "t"), get("X-Message", "Message", "m")
	q.tags = strings.FieldsFunc(get("X-Tags", "Tags", "Tag", "ta"), func(r rune) bool { return r == ',' || r == ' ' })
	for p := range strings.SplitSeq(get("X-Priority", "Priority", "prio", "p"), ",") {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		n, err := protocol.NtfyPriority(p)
		if err != nil {
			return q, err
		}
		q.priorities = append(q.priorities, n)
	}
	return q, q.setSince(get("X-Since", "Since", "si"))
}

func (q *ntfyQuery) setSince(since string) error {
	switch q.since = since; since {
	case "":
		if q.since = "none"; q.poll {
			q.since = "all"
		}
		return nil
	case "all", "latest", "none":
		return nil
	}
	if q.after = protocol.NtfyNumber(since); q.after != 0 {
		return nil
	}
	if n, err := strconv.ParseInt(since, 10, 64); err == nil && n >= 0 {
		q.from = time.Unix(n, 0)
		return nil
	}
	if d, err := time.ParseDuration(since); err == nil {
		q.from = time.Now().Add(-d)
		return nil
	}
	return refusal.Invalid("since", "invalid since parameter")
}
