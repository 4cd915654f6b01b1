package webhook

import (
	"fmt"
	"strings"

	"slipway/relay/internal/format"
)

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
			return e.says(format.Link("commented", e.Comment.URL)+" on the changes of "+e.PullRequest.link(), e.Comment.Body)
		}
	case "commit_comment":
		if e.Action == "created" {
			return e.says(format.Link("commented", e.Comment.URL)+" on a commit", e.Comment.Body)
		}
	case "release":
		if e.Action == "published" {
			n := e.says("released "+format.Link(firstOf(e.Release.Name, e.Release.Tag), e.Release.URL), e.Release.Body)
			n.priority = 1
			return n
		}
	case "discussion", "discussion_comment":
		return e.discussion(event)
	case "workflow_run":
		return e.workflow()
	case "action_run_failure", "action_run_recover": // Forgejo's; action_run_success is what a team expects
		return e.actionRun(event)
	case "check_run":
		return e.check()
	case "status":
		return e.status()
	case "deployment_review":
		if e.Action == "requested" {
			return e.says("asked for an approval of the deployment to "+format.Bold(e.Environment)+" by "+format.Link(e.WorkflowRun.Name, e.WorkflowRun.URL), "")
		}
	case "deployment_status":
		return e.deployment()
	case "dependabot_alert", "code_scanning_alert", "secret_scanning_alert":
		return e.alert(event)
	case "package", "registry_package":
		return e.pack()
	case "milestone":
		if e.Action == "created" || e.Action == "closed" {
			return e.says(e.Action+" the milestone "+format.Link(e.Milestone.Title, e.Milestone.URL), "")
		}
	case "member":
		if e.Action == "added" || e.Action == "removed" {
			return e.says(e.Action+" "+format.Bold(e.Member.Login)+" as a collaborator", "")
		}
	case "fork":
		return e.says("forked it to "+format.Link(e.Forkee.FullName, e.Forkee.URL), "")
	case "star":
		if e.Action == "created" {
			return e.says("starred it", "")
		}
	case "public":
		return e.says("made it public", "")
	case "repository":
		switch e.Action {
		case "created", "deleted", "archived", "unarchived", "renamed", "transferred":
			return e.says(e.Action+" the repository", "")
		case "privatized":
			return e.says("made it private", "") // the event public says the opposite
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
	return notice{sentence: format.Bold(who) + " " + what, quote: quote}
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
	n := e.says(verb+" "+format.Link(commits, firstOf(e.Compare, e.CompareURL))+" to "+format.Code(branch), "")
	var items []string
	for _, c := range e.Commits[:min(len(e.Commits), maxCommits)] {
		subject, _, _ := strings.Cut(c.Message, "\n")
		items = append(items, "<li>"+format.Link(short(c.ID), c.URL)+" "+format.Escape(format.Line(subject, 200))+"</li>")
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
	return e.says(event+"d the "+kind+" "+format.Code(strings.TrimPrefix(strings.TrimPrefix(e.Ref, "refs/heads/"), "refs/tags/")), "")
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
		return e.says("marked "+p.link()+" as ready for review", "")
	case e.Action == "converted_to_draft":
		return e.says("made "+p.link()+" a draft", "")
	case e.Action == "review_requested" && e.Reviewer.Login != "":
		return e.says("asked "+format.Bold(e.Reviewer.Login)+" to review "+p.link(), "")
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
			return e.says("assigned "+e.Issue.link()+" to "+format.Bold(e.Assignee.Login), "")
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
	return e.says(format.Link("commented", e.Comment.URL)+" on "+topic.link(), e.Comment.Body)
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
	return e.says(format.Link(what, e.Review.URL)+" "+e.PullRequest.link(), firstOf(e.Review.Body, e.Review.Text))
}

func (e *forgeEvent) discussion(event string) notice {
	if e.Discussion == nil {
		return notice{}
	}
	switch {
	case event == "discussion_comment" && e.Action == "created":
		return e.says(format.Link("commented", e.Comment.URL)+" on the discussion "+e.Discussion.link(), e.Comment.Body)
	case event == "discussion" && e.Action == "created":
		return e.says("started the discussion "+e.Discussion.link(), e.Discussion.Body)
	case event == "discussion" && e.Action == "answered":
		return e.says("marked an answer in the discussion "+e.Discussion.link(), e.Answer.Body)
	}
	return notice{}
}

// workflow reports runs that fail. Runs that succeed are what a team expects.
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
	name := firstOf(r.Name, e.Workflow.Name, r.Title, fileOf(r.Path), "run")
	return notice{
		sentence: "The workflow " + format.Link(fmt.Sprintf("%s #%d", format.Line(name, 200), r.Number), r.URL) + " of " + format.Code(r.Branch) + " ended with " + format.Bold(strings.ReplaceAll(r.Conclusion, "_", " ")),
		priority: 1,
	}
}

// fileOf returns the name of a workflow's file, as in .gitea/workflows/ci.yml@refs/heads/main.
func fileOf(path string) string {
	path, _, _ = strings.Cut(path, "@")
	return path[strings.LastIndexByte(path, '/')+1:]
}

// actionRun reports runs of Forgejo's Actions that fail, and the first that succeeds after one.
func (e *forgeEvent) actionRun(event string) notice {
	r := e.Run
	name := firstOf(r.Workflow, r.Title, "run")
	what, priority := "failed", 1
	if event == "action_run_recover" {
		what, priority = "succeeds again", 0
	}
	n := notice{sentence: "The workflow " + format.Link(fmt.Sprintf("%s #%d", format.Line(name, 200), r.Number), r.URL) + " of " + format.Code(firstOf(r.Branch, short(r.Commit), "?")) + " " + format.Bold(what), priority: priority}
	if r.Title != "" && r.Title != name {
		n.quote = r.Title
	}
	return n
}

// check returns the notice of a failed check, except those of GitHub Actions, which are reported as workflow runs.
func (e *forgeEvent) check() notice {
	c := e.CheckRun
	if e.Action != "completed" || c.App.Slug == "github-actions" {
		return notice{}
	}
	switch c.Conclusion {
	case "failure", "timed_out", "action_required":
	default:
		return notice{}
	}
	return notice{
		sentence: "The check " + format.Link(format.Line(c.Name, 200), c.URL) + " of " + format.Code(firstOf(c.Suite.Branch, short(c.Commit))) + " ended with " + format.Bold(strings.ReplaceAll(c.Conclusion, "_", " ")),
		priority: 1,
	}
}

// status returns the notice of a commit status that is a failure or an error.
func (e *forgeEvent) status() notice {
	if e.State != "failure" && e.State != "error" {
		return notice{}
	}
	sentence := format.Bold(format.Line(e.Context, 200)) + " reports " + format.Link(e.State, e.TargetURL) + " for " + format.Link(short(e.SHA), e.Commit.URL)
	if e.Description != "" {
		sentence += ": " + format.Escape(format.Line(e.Description, 300))
	}
	return notice{sentence: sentence, priority: 1}
}

// short returns the beginning of a commit's id.
func short(id string) string { return id[:min(len(id), 8)] }

func (e *forgeEvent) deployment() notice {
	n := notice{sentence: "The deployment to " + format.Bold(e.Deployment.Environment) + " "}
	switch e.DeploymentStatus.State {
	case "success":
		n.sentence += format.Link("succeeded", e.DeploymentStatus.URL)
	case "failure", "error":
		n.sentence, n.priority = n.sentence+format.Link("failed", e.DeploymentStatus.URL), 1
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
	n := notice{sentence: "Security alert: " + format.Link(format.Line(what, 300), e.Alert.URL)}
	severity := firstOf(e.Alert.Advisory.Severity, e.Alert.Rule.Severity)
	if severity != "" {
		n.sentence += " (" + format.Escape(severity) + ")"
	}
	if event == "secret_scanning_alert" || severity == "critical" || severity == "high" || severity == "error" { // the last of code scanning
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
	return e.says("published the package "+format.Link(strings.TrimSpace(p.Name+" "+p.Version.Version), p.URL), "")
}

func (e *forgeEvent) wiki() notice {
	var pages []string
	for _, p := range e.Pages[:min(len(e.Pages), maxCommits)] {
		pages = append(pages, format.Link(p.Title, p.URL))
	}
	if len(pages) == 0 && e.Page != "" && e.Action != "" {
		return e.says(e.Action+" the wiki page "+format.Bold(e.Page), "")
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
