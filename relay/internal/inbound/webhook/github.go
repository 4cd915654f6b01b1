package webhook

import (
	"fmt"
	"strconv"
	"strings"

	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/inbound"
	"slipway/relay/internal/markup"
)

// GitHub is GitHub's webhooks (https://docs.github.com/webhooks/webhook-events-and-payloads). With a hook secret the
// request must be signed.
func GitHub() inbound.Protocol {
	return inbound.Protocol{
		Name: "github", Routes: posted("github"), Token: inbound.HookToken, Events: true,
		Parse: func(r *inbound.Request, app inbound.App) (inbound.Batch, error) {
			if err := checkHMAC(r, "X-Hub-Signature-256", "sha256=", app); err != nil {
				return inbound.Batch{}, err
			}
			return parseForge(r, "github", r.Header.Get("X-GitHub-Event"), r.Header.Get("X-GitHub-Delivery"))
		},
		Reply: reply, Fail: httprequest.WriteError,
	}
}

// Gitea is the webhooks of Gitea and Forgejo, which have the shape of GitHub's
// (https://forgejo.org/docs/latest/user/webhooks/). With a hook secret the request must be signed.
func Gitea() inbound.Protocol {
	return inbound.Protocol{
		Name: "gitea", Routes: posted("gitea"), Token: inbound.HookToken, Events: true,
		Parse: func(r *inbound.Request, app inbound.App) (inbound.Batch, error) {
			name := "Gitea"
			if r.Header.Get("X-Forgejo-Event") != "" {
				name = "Forgejo"
			}
			if err := checkHMAC(r, "X-"+name+"-Signature", "", app); err != nil {
				return inbound.Batch{}, err
			}
			return parseForge(r, "gitea", r.Header.Get("X-"+name+"-Event"), r.Header.Get("X-"+name+"-Delivery"))
		},
		Reply: reply, Fail: httprequest.WriteError,
	}
}

func parseForge(r *inbound.Request, source, event, delivery string) (inbound.Batch, error) {
	var e forgeEvent
	if err := inbound.DecodeHook(r, &e); err != nil {
		return inbound.Batch{}, err
	}
	n := e.notice(event)
	if n.sentence == "" {
		return ignored, nil
	}
	if e.Repository.FullName != "" {
		n.sentence = "[" + markup.Link(e.Repository.FullName, e.Repository.URL) + "] " + n.sentence
	} else if e.Organization.Login != "" {
		n.sentence = "[" + markup.Escape(e.Organization.Login) + "] " + n.sentence
	}
	d := html("", n.sentence+n.quoted(), n.priority)
	d.IdempotencyKey, d.Thread = deliveryKey(source, delivery, r.Body), e.thread()
	return one(d), nil
}

// thread names the pull request, issue or discussion of an event; "" if it is about none.
func (e *forgeEvent) thread() string {
	switch {
	case e.PullRequest != nil:
		return topicOf(e.Repository.FullName, "#", e.PullRequest.Number)
	case e.Issue != nil:
		return topicOf(e.Repository.FullName, "#", e.Issue.Number)
	case e.Discussion != nil:
		return topicOf(e.Repository.FullName, "#", e.Discussion.Number)
	}
	return ""
}

// topicOf names a topic of a repository.
func topicOf(repository, sigil string, number int64) string {
	if number == 0 {
		return ""
	}
	return markup.Line(repository, 200) + sigil + strconv.FormatInt(number, 10)
}

// notice is what the room reads of an event.
type notice struct {
	sentence string // HTML; "" for an event that nobody wants to read
	quote    string // text of a person
	priority int
}

const maxQuote = 500

func (n *notice) quoted() string {
	if strings.TrimSpace(n.quote) == "" {
		return ""
	}
	return "<blockquote>" + markup.Text(markup.Cut(n.quote, maxQuote)) + "</blockquote>"
}

// forgeEvent holds the fields of all events that are read. GitHub, Gitea and Forgejo name them alike.
type forgeEvent struct {
	Action       string      `json:"action"`
	Ref          string      `json:"ref"`
	RefType      string      `json:"ref_type"`
	Compare      string      `json:"compare"`
	CompareURL   string      `json:"compare_url"` // Gitea's
	Forced       bool        `json:"forced"`
	Created      bool        `json:"created"`
	Deleted      bool        `json:"deleted"`
	Commits      []commit    `json:"commits"`
	TotalCommits int         `json:"total_commits"`
	Sender       forgeUser   `json:"sender"`
	Repository   forgeRepo   `json:"repository"`
	Forkee       forgeRepo   `json:"forkee"`
	Organization forgeUser   `json:"organization"`
	Zen          string      `json:"zen"`
	PullRequest  *forgeTopic `json:"pull_request"`
	Issue        *forgeTopic `json:"issue"`
	Discussion   *forgeTopic `json:"discussion"`
	Comment      forgeText   `json:"comment"`
	Answer       forgeText   `json:"answer"`
	Review       forgeReview `json:"review"`
	Release      forgeText   `json:"release"`
	Assignee     forgeUser   `json:"assignee"`
	Reviewer     forgeUser   `json:"requested_reviewer"`
	Member       forgeUser   `json:"member"`
	WorkflowRun  forgeRun    `json:"workflow_run"`
	Deployment   struct {
		Environment string `json:"environment"`
	} `json:"deployment"`
	DeploymentStatus struct {
		State string `json:"state"`
		URL   string `json:"target_url"`
	} `json:"deployment_status"`
	Alert     forgeAlert `json:"alert"`
	Package   forgePack  `json:"package"`
	Registry  forgePack  `json:"registry_package"`
	Milestone forgeText  `json:"milestone"`
	Page      string     `json:"page"` // Gitea's
	Pages     []struct {
		Title  string `json:"title"`
		Action string `json:"action"`
		URL    string `json:"html_url"`
	} `json:"pages"`
}

type forgeUser struct {
	Login string `json:"login"`
}

type forgeRepo struct {
	FullName string `json:"full_name"`
	URL      string `json:"html_url"`
}

type commit struct {
	ID      string `json:"id"`
	Message string `json:"message"`
	URL     string `json:"url"`
}

// forgeTopic is an issue, a pull request or a discussion.
type forgeTopic struct {
	Number int64  `json:"number"`
	Title  string `json:"title"`
	URL    string `json:"html_url"`
	Body   string `json:"body"`
	Merged bool   `json:"merged"`
	Draft  bool   `json:"draft"`
	// PullRequest is set on the issue of a comment on a pull request.
	PullRequest *struct{} `json:"pull_request"`
}

func (t *forgeTopic) link() string {
	return markup.Link(fmt.Sprintf("#%d %s", t.Number, markup.Line(t.Title, 300)), t.URL)
}

// forgeText is a comment, a release or a milestone.
type forgeText struct {
	Body  string `json:"body"`
	URL   string `json:"html_url"`
	Tag   string `json:"tag_name"`
	Name  string `json:"name"`
	Title string `json:"title"`
}

type forgeReview struct {
	State string `json:"state"`
	Type  string `json:"type"`    // Gitea's
	Text  string `json:"content"` // Gitea's
	Body  string `json:"body"`
	URL   string `json:"html_url"`
}

type forgeRun struct {
	Name       string `json:"name"`
	Branch     string `json:"head_branch"`
	Conclusion string `json:"conclusion"`
	URL        string `json:"html_url"`
	Number     int64  `json:"run_number"`
}

type forgeAlert struct {
	URL      string `json:"html_url"`
	Secret   string `json:"secret_type_display_name"`
	Advisory struct {
		Summary  string `json:"summary"`
		Severity string `json:"severity"`
	} `json:"security_advisory"`
	Rule struct {
		Description string `json:"description"`
		Severity    string `json:"severity"`
	} `json:"rule"`
}

type forgePack struct {
	Name    string `json:"name"`
	URL     string `json:"html_url"`
	Version struct {
		Version string `json:"version"`
	} `json:"package_version"`
}

// notice returns what to say of an event. Events and actions that are not listed are ignored.
func (e *forgeEvent) notice(event string) notice {
	switch event {
	case "ping":
		return e.says("connected this webhook", "")
	case "push":
		return e.push()
	case "create", "delete":
		return e.ref(event)
	case "pull_request":
		return e.pull()
	case "issues":
		return e.issue()
	case "issue_comment", "pull_request_comment":
		if e.Action == "reviewed" { // Gitea's
			return e.review(event)
		}
		return e.comment()
	case "pull_request_review", "pull_request_approved", "pull_request_rejected", "pull_request_review_approved", "pull_request_review_rejected":
		return e.review(event)
	case "pull_request_review_comment":
		if e.Action == "created" && e.PullRequest != nil {
			return e.says(markup.Link("commented", e.Comment.URL)+" on the changes of "+e.PullRequest.link(), e.Comment.Body)
		}
	case "commit_comment":
		if e.Action == "created" {
			return e.says(markup.Link("commented", e.Comment.URL)+" on a commit", e.Comment.Body)
		}
	case "release":
		if e.Action == "published" {
			return e.says("released "+markup.Link(firstOf(e.Release.Name, e.Release.Tag), e.Release.URL), e.Release.Body)
		}
	case "discussion", "discussion_comment":
		return e.discussion(event)
	case "workflow_run":
		return e.workflow()
	case "deployment_status":
		return e.deployment()
	case "dependabot_alert", "code_scanning_alert", "secret_scanning_alert":
		return e.alert(event)
	case "package", "registry_package":
		return e.pack()
	case "milestone":
		if e.Action == "created" || e.Action == "closed" {
			return e.says(e.Action+" the milestone "+markup.Link(e.Milestone.Title, e.Milestone.URL), "")
		}
	case "member":
		if e.Action == "added" || e.Action == "removed" {
			return e.says(e.Action+" "+markup.Bold(e.Member.Login)+" as a collaborator", "")
		}
	case "fork":
		return e.says("forked it to "+markup.Link(e.Forkee.FullName, e.Forkee.URL), "")
	case "star":
		if e.Action == "created" {
			return e.says("starred it", "")
		}
	case "public":
		return e.says("made it public", "")
	case "repository":
		switch e.Action {
		case "created", "deleted", "archived", "unarchived", "renamed", "transferred", "publicized", "privatized":
			return e.says(e.Action+" the repository", "")
		}
	case "gollum", "wiki":
		return e.wiki()
	}
	return notice{}
}

func (e *forgeEvent) says(what, quote string) notice {
	who := e.Sender.Login
	if who == "" {
		who = "Somebody"
	}
	return notice{sentence: markup.Bold(who) + " " + what, quote: quote}
}

// maxCommits is how many commits a message lists.
const maxCommits = 10

func (e *forgeEvent) push() notice {
	branch, isBranch := strings.CutPrefix(e.Ref, "refs/heads/")
	if !isBranch || e.Created && len(e.Commits) == 0 || e.Deleted {
		return notice{} // the events create and delete say it
	}
	count := max(e.TotalCommits, len(e.Commits))
	verb, commits := "pushed", fmt.Sprintf("%d commits", count)
	if count == 1 {
		commits = "1 commit"
	}
	if e.Forced {
		verb = "force-pushed"
	}
	n := e.says(verb+" "+markup.Link(commits, firstOf(e.Compare, e.CompareURL))+" to "+markup.Code(branch), "")
	var items []string
	for _, c := range e.Commits[:min(len(e.Commits), maxCommits)] {
		subject, _, _ := strings.Cut(c.Message, "\n")
		items = append(items, "<li>"+markup.Link(c.ID[:min(len(c.ID), 8)], c.URL)+" "+markup.Escape(markup.Line(subject, 200))+"</li>")
	}
	if more := count - len(items); more > 0 && len(items) > 0 {
		items = append(items, fmt.Sprintf("<li>and %d more</li>", more))
	}
	if len(items) > 0 {
		n.sentence += "<ul>" + strings.Join(items, "") + "</ul>"
	}
	return n
}

func (e *forgeEvent) ref(event string) notice {
	kind := e.RefType
	if kind != "branch" && kind != "tag" {
		return notice{}
	}
	return e.says(event+"d the "+kind+" "+markup.Code(strings.TrimPrefix(strings.TrimPrefix(e.Ref, "refs/heads/"), "refs/tags/")), "")
}

func (e *forgeEvent) pull() notice {
	p := e.PullRequest
	if p == nil {
		return notice{}
	}
	what, quote := "", ""
	switch {
	case e.Action == "opened" && p.Draft:
		what, quote = "opened the draft", p.Body
	case e.Action == "opened":
		what, quote = "opened", p.Body
	case e.Action == "closed" && p.Merged:
		what = "merged"
	case e.Action == "closed", e.Action == "reopened":
		what = e.Action
	case e.Action == "ready_for_review":
		what = "marked as ready for review"
	case e.Action == "converted_to_draft":
		what = "converted to a draft"
	case e.Action == "review_requested" && e.Reviewer.Login != "":
		return e.says("asked "+markup.Bold(e.Reviewer.Login)+" to review "+p.link(), "")
	default:
		return notice{}
	}
	return e.says(what+" "+p.link(), quote)
}

func (e *forgeEvent) issue() notice {
	if e.Issue == nil {
		return notice{}
	}
	switch e.Action {
	case "opened":
		return e.says("opened "+e.Issue.link(), e.Issue.Body)
	case "closed", "reopened", "deleted", "pinned", "locked":
		return e.says(e.Action+" "+e.Issue.link(), "")
	case "transferred":
		return e.says("transferred "+e.Issue.link(), "")
	case "assigned":
		if e.Assignee.Login != "" {
			return e.says("assigned "+e.Issue.link()+" to "+markup.Bold(e.Assignee.Login), "")
		}
	}
	return notice{}
}

func (e *forgeEvent) comment() notice {
	topic := e.Issue
	if topic == nil {
		topic = e.PullRequest
	}
	if e.Action != "created" || topic == nil {
		return notice{}
	}
	return e.says(markup.Link("commented", e.Comment.URL)+" on "+topic.link(), e.Comment.Body)
}

func (e *forgeEvent) review(event string) notice {
	if e.PullRequest == nil || event == "pull_request_review" && e.Action != "submitted" {
		return notice{}
	}
	what := "commented on"
	switch state := strings.ToLower(firstOf(e.Review.State, e.Review.Type, event)); {
	case strings.HasSuffix(state, "approved"):
		what = "approved"
	case strings.HasSuffix(state, "changes_requested"), strings.HasSuffix(state, "rejected"):
		what = "requested changes to"
	}
	return e.says(markup.Link(what, e.Review.URL)+" "+e.PullRequest.link(), firstOf(e.Review.Body, e.Review.Text))
}

func (e *forgeEvent) discussion(event string) notice {
	if e.Discussion == nil {
		return notice{}
	}
	switch {
	case event == "discussion_comment" && e.Action == "created":
		return e.says(markup.Link("commented", e.Comment.URL)+" on the discussion "+e.Discussion.link(), e.Comment.Body)
	case event == "discussion" && e.Action == "created":
		return e.says("started the discussion "+e.Discussion.link(), e.Discussion.Body)
	case event == "discussion" && e.Action == "answered":
		return e.says("marked an answer in the discussion "+e.Discussion.link(), e.Answer.Body)
	}
	return notice{}
}

// workflow tells of runs that fail. Runs that succeed are what a team expects.
func (e *forgeEvent) workflow() notice {
	r := e.WorkflowRun
	if e.Action != "completed" {
		return notice{}
	}
	switch r.Conclusion {
	case "failure", "timed_out", "startup_failure", "action_required":
	default:
		return notice{}
	}
	return notice{
		sentence: "The workflow " + markup.Link(fmt.Sprintf("%s #%d", r.Name, r.Number), r.URL) + " of " + markup.Code(r.Branch) + " ended with " + markup.Bold(strings.ReplaceAll(r.Conclusion, "_", " ")),
		priority: 1,
	}
}

func (e *forgeEvent) deployment() notice {
	n := notice{sentence: "The deployment to " + markup.Bold(e.Deployment.Environment) + " "}
	switch e.DeploymentStatus.State {
	case "success":
		n.sentence += markup.Link("succeeded", e.DeploymentStatus.URL)
	case "failure", "error":
		n.sentence, n.priority = n.sentence+markup.Link("failed", e.DeploymentStatus.URL), 1
	default:
		return notice{}
	}
	return n
}

func (e *forgeEvent) alert(event string) notice {
	switch e.Action {
	case "created", "reopened", "appeared_in_branch":
	default:
		return notice{}
	}
	what := firstOf(e.Alert.Advisory.Summary, e.Alert.Rule.Description, e.Alert.Secret, "an alert")
	n := notice{sentence: "Security alert: " + markup.Link(markup.Line(what, 300), e.Alert.URL)}
	severity := firstOf(e.Alert.Advisory.Severity, e.Alert.Rule.Severity)
	if severity != "" {
		n.sentence += " (" + markup.Escape(severity) + ")"
	}
	if event == "secret_scanning_alert" || severity == "critical" || severity == "high" {
		n.priority = 1
	}
	return n
}

func (e *forgeEvent) pack() notice {
	p := e.Package
	if p.Name == "" {
		p = e.Registry
	}
	if p.Name == "" || e.Action != "published" && e.Action != "created" {
		return notice{}
	}
	return e.says("published the package "+markup.Link(strings.TrimSpace(p.Name+" "+p.Version.Version), p.URL), "")
}

func (e *forgeEvent) wiki() notice {
	var pages []string
	for _, p := range e.Pages[:min(len(e.Pages), maxCommits)] {
		pages = append(pages, markup.Link(p.Title, p.URL))
	}
	if len(pages) == 0 && e.Page != "" && e.Action != "" {
		return e.says(e.Action+" the wiki page "+markup.Bold(e.Page), "")
	}
	if len(pages) == 0 {
		return notice{}
	}
	return e.says("edited the wiki: "+strings.Join(pages, ", "), "")
}

// firstOf returns the first text that isn't empty.
func firstOf(texts ...string) string {
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return ""
}
