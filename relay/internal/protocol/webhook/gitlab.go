package webhook

import (
	"crypto/hmac"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/format"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/request"
)

// GitLab is GitLab's webhooks (https://docs.gitlab.com/user/project/integrations/webhook_events/). The secret token
// that GitLab sends in X-Gitlab-Token may be the application's token, or its webhook secret.
func GitLab() protocol.Protocol {
	return protocol.Protocol{
		Name: "gitlab", Routes: hook("gitlab"), Events: true,
		Token: func(r *protocol.Request) (string, error) {
			token, err := protocol.Token(r)
			if token == "" && err == nil {
				token = r.Header.Get("X-Gitlab-Token")
			}
			return token, err
		},
		Parse: parseGitLab, Reply: reply, Fail: request.WriteError,
	}
}

func parseGitLab(r *protocol.Request, app protocol.App) (protocol.Parsed, error) {
	if err := checkGitLab(r, app); err != nil {
		return protocol.Parsed{}, err
	}
	var e gitlabEvent
	if err := protocol.DecodeHook(r, &e); err != nil {
		return protocol.Parsed{}, err
	}
	n := e.notice()
	if n.sentence == "" {
		return ignored, nil
	}
	if e.Project.Path != "" {
		n.sentence = "[" + format.Link(e.Project.Path, e.Project.URL) + "] " + n.sentence
	}
	d := html("", n.sentence+n.quoted(), n.priority)
	d.IdempotencyKey = deliveryKey("gitlab", firstOf(r.Header.Get("Idempotency-Key"), r.Header.Get("webhook-id"), r.Header.Get("X-Gitlab-Event-UUID")), r.Body)
	d.Thread = e.thread()
	return one(d), nil
}

// thread names the merge request or issue of an event; "" if it is about none.
func (e *gitlabEvent) thread() string {
	switch {
	case e.Kind == "merge_request":
		return topicOf(e.Project.Path, "!", e.Object.IID)
	case e.Kind == "issue", e.Kind == "work_item", e.Kind == "incident":
		return topicOf(e.Project.Path, "#", e.Object.IID)
	case e.Kind == "note" && e.MergeRequest != nil:
		return topicOf(e.Project.Path, "!", e.MergeRequest.IID)
	case e.Kind == "note" && e.Issue != nil:
		return topicOf(e.Project.Path, "#", e.Issue.IID)
	}
	return ""
}

// checkGitLab refuses a request without the webhook secret in X-Gitlab-Token or a signature by it, if there is one.
func checkGitLab(r *protocol.Request, app protocol.App) error {
	secret, err := hookSecret(app)
	if err != nil {
		return err
	}
	if secret == "" || hmac.Equal([]byte(r.Header.Get("X-Gitlab-Token")), []byte(secret)) {
		return nil
	}
	seconds, _ := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64) // 0 is too long ago
	if skew := r.Now.Sub(time.Unix(seconds, 0)).Abs(); r.Header.Get("webhook-signature") != "" && skew > maxSkew {
		return unsigned("The time in the header webhook-timestamp differs from this relay's clock by more than 5 minutes: the webhook was replayed, or a clock is wrong.")
	}
	want := sum(signingKey(secret), r.Header.Get("webhook-id"), ".", r.Header.Get("webhook-timestamp"), ".", string(r.Body))
	for signature := range strings.FieldsSeq(r.Header.Get("webhook-signature")) {
		given, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signature, "v1,"))
		if err == nil && hmac.Equal(given, want) {
			return nil
		}
	}
	return unsigned("The application has a webhook secret: give it to the webhook in GitLab as its secret token.")
}

// signingKey returns the key of a signing token: the bytes that a token of the form whsec_… encodes
// (https://github.com/standard-webhooks/standard-webhooks), or any other secret itself.
func signingKey(secret string) string {
	if encoded, found := strings.CutPrefix(secret, "whsec_"); found {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			return string(key)
		}
	}
	return secret
}

type gitlabEvent struct {
	Kind         string   `json:"object_kind"`
	EventName    string   `json:"event_name"`
	UserName     string   `json:"user_name"` // for pushes
	Before       string   `json:"before"`
	After        string   `json:"after"`
	Ref          string   `json:"ref"`
	TotalCommits int      `json:"total_commits_count"`
	Commits      []commit `json:"commits"`
	User         struct {
		Name string `json:"name"`
	} `json:"user"`
	Project struct {
		Path string `json:"path_with_namespace"`
		URL  string `json:"web_url"`
	} `json:"project"`
	Object       gitlabObject  `json:"object_attributes"`
	MergeRequest *gitlabObject `json:"merge_request"`
	Issue        *gitlabObject `json:"issue"`
	Snippet      *gitlabObject `json:"snippet"`
	Commit       *commit       `json:"commit"`

	// For releases and deployments, which have no object.
	Action      string `json:"action"`
	Name        string `json:"name"`
	Tag         string `json:"tag"`
	URL         string `json:"url"`
	Description string `json:"description"`
	Status      string `json:"status"`
	Environment string `json:"environment"`
	DeployURL   string `json:"deployable_url"`

	// For jobs.
	BuildName   string `json:"build_name"`
	BuildStatus string `json:"build_status"`
	BuildID     int64  `json:"build_id"`
	AllowedFail bool   `json:"build_allow_failure"`
}

type gitlabObject struct {
	ID          int64  `json:"id"`
	IID         int64  `json:"iid"`
	Action      string `json:"action"`
	Title       string `json:"title"`
	Description string `json:"description"`
	URL         string `json:"url"`
	Note        string `json:"note"`
	System      bool   `json:"system"`
	Status      string `json:"status"` // for pipelines
	Ref         string `json:"ref"`
	Draft       bool   `json:"draft"`
	OldRev      string `json:"oldrev"`
}

func (o *gitlabObject) link(sigil string) string {
	return format.Link(fmt.Sprintf("%s%d %s", sigil, o.IID, format.Line(o.Title, 300)), o.URL)
}

func (e *gitlabEvent) says(what, quote string) notice {
	return notice{sentence: format.Bold(firstOf(e.User.Name, e.UserName, "Somebody")) + " " + what, quote: quote}
}

// notice returns what to say of an event. Events and actions that are not listed are ignored.
func (e *gitlabEvent) notice() notice {
	switch e.Kind {
	case "push":
		return e.push()
	case "tag_push":
		verb := "created"
		if isNull(e.After) {
			verb = "deleted"
		}
		return e.says(verb+" the tag "+format.Code(strings.TrimPrefix(e.Ref, "refs/tags/")), "")
	case "merge_request":
		return e.merge()
	case "issue", "work_item", "incident":
		if verb := verbs[e.Object.Action]; verb != "" {
			return e.says(verb+" "+e.Object.link("#"), e.opening())
		}
	case "note":
		return e.note()
	case "pipeline":
		if e.Object.Status == "failed" {
			name := fmt.Sprintf("#%d", e.Object.ID)
			target := firstOf(e.Object.URL, e.Project.URL+fmt.Sprintf("/-/pipelines/%d", e.Object.ID))
			return notice{sentence: "The pipeline " + format.Link(name, target) + " of " + format.Code(e.Object.Ref) + " failed", priority: 1}
		}
	case "build":
		return notice{} // its pipeline says it
	case "release":
		if e.Action == "create" {
			return notice{sentence: "Release " + format.Link(firstOf(e.Name, e.Tag), e.URL), quote: e.Description}
		}
	case "deployment":
		switch e.Status {
		case "success":
			return e.says("deployed to "+format.Link(e.Environment, e.DeployURL), "")
		case "failed":
			n := e.says("could not deploy to "+format.Link(e.Environment, e.DeployURL), "")
			n.priority = 1
			return n
		}
	case "wiki_page":
		if verb := map[string]string{"create": "created", "update": "edited", "delete": "deleted"}[e.Object.Action]; verb != "" {
			return e.says(verb+" the wiki page "+format.Link(e.Object.Title, e.Object.URL), "")
		}
	}
	return notice{}
}

var verbs = map[string]string{"open": "opened", "close": "closed", "reopen": "reopened", "merge": "merged", "approved": "approved", "unapproved": "withdrew the approval of"}

// opening returns the description of what was just opened.
func (e *gitlabEvent) opening() string {
	if e.Object.Action == "open" {
		return e.Object.Description
	}
	return ""
}

func (e *gitlabEvent) merge() notice {
	o := e.Object
	if o.Action == "update" && o.OldRev != "" {
		return e.says("pushed to "+o.link("!"), "")
	}
	verb := verbs[o.Action]
	if verb == "" {
		return notice{}
	}
	if o.Action == "open" && o.Draft {
		verb += " the draft"
	}
	return e.says(verb+" "+o.link("!"), e.opening())
}

func (e *gitlabEvent) note() notice {
	if e.Object.System {
		return notice{}
	}
	what := format.Link("commented", e.Object.URL) + " on "
	switch {
	case e.MergeRequest != nil:
		what += e.MergeRequest.link("!")
	case e.Issue != nil:
		what += e.Issue.link("#")
	case e.Snippet != nil:
		what += "the snippet " + format.Link(e.Snippet.Title, e.Snippet.URL)
	case e.Commit != nil:
		what += "the commit " + format.Link(short(e.Commit.ID), e.Commit.URL)
	default:
		what += "something"
	}
	return e.says(what, e.Object.Note)
}

// isNull reports whether a revision is all zeros, which stands for none.
func isNull(revision string) bool { return revision != "" && strings.Trim(revision, "0") == "" }

func (e *gitlabEvent) push() notice {
	branch := strings.TrimPrefix(e.Ref, "refs/heads/")
	switch {
	case isNull(e.After):
		return e.says("deleted the branch "+format.Code(branch), "")
	case len(e.Commits) == 0 && isNull(e.Before):
		return e.says("created the branch "+format.Code(branch), "")
	}
	f := forgeEvent{Ref: "refs/heads/" + branch, Commits: e.Commits, TotalCommits: e.TotalCommits, Sender: forgeUser{Login: firstOf(e.UserName, e.User.Name)}}
	if e.Project.URL != "" && e.Before != "" && !isNull(e.Before) {
		f.Compare = e.Project.URL + "/-/compare/" + e.Before + "..." + e.After
	}
	return f.push()
}
