package webhook

import (
	"fmt"
	"strconv"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/protocol"
)

func parseForge(r *protocol.Request, source, event, delivery string) (protocol.Parsed, error) {
	var e forgeEvent
	if err := protocol.DecodeHook(r, &e); err != nil {
		return protocol.Parsed{}, err
	}
	if e.Repository.FullName == "" {
		e.Repository = e.Run.Repository
	}
	n := e.notice(event)
	if n.sentence == "" {
		return ignored, nil
	}
	if e.Repository.FullName != "" {
		n.sentence = "[" + format.Link(e.Repository.FullName, e.Repository.URL) + "] " + n.sentence
	} else if e.Organization.Login != "" {
		n.sentence = "[" + format.Escape(e.Organization.Login) + "] " + n.sentence
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
	return format.Line(repository, 200) + sigil + strconv.FormatInt(number, 10)
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
	return "<blockquote>" + format.Text(format.Cut(n.quote, maxQuote)) + "</blockquote>"
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
	Workflow     forgeText   `json:"workflow"`
	Run          actionRun   `json:"run"` // Forgejo's
	CheckRun     struct {
		Name       string `json:"name"`
		URL        string `json:"html_url"`
		Commit     string `json:"head_sha"`
		Conclusion string `json:"conclusion"`
		App        struct {
			Slug string `json:"slug"`
		} `json:"app"`
		Suite struct {
			Branch string `json:"head_branch"`
		} `json:"check_suite"`
	} `json:"check_run"`
	Deployment struct {
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

	// For the status of a commit and reviews of deployments.
	SHA         string `json:"sha"`
	State       string `json:"state"`
	Context     string `json:"context"`
	TargetURL   string `json:"target_url"`
	Description string `json:"description"`
	Environment string `json:"environment"`
	Commit      struct {
		URL string `json:"html_url"`
	} `json:"commit"`

	Pages []struct {
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
	return format.Link(fmt.Sprintf("#%d %s", t.Number, format.Line(t.Title, 300)), t.URL)
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
	Title      string `json:"display_title"` // Gitea's, which has no name
	Path       string `json:"path"`
}

// actionRun is a run of Forgejo's Actions.
type actionRun struct {
	Title      string    `json:"title"`
	Workflow   string    `json:"workflow_id"`
	Number     int64     `json:"index_in_repo"`
	Branch     string    `json:"prettyref"`
	Commit     string    `json:"commit_sha"`
	URL        string    `json:"html_url"`
	Repository forgeRepo `json:"repository"`
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
