package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
)

const (
	repository = `"sender":{"login":"ann"},"repository":{"full_name":"o/r","html_url":"https://g/o/r"}`
	pushed     = `{"ref":"refs/heads/main","compare":"https://g/c","commits":[{"id":"0123456789","message":"Fix <it>\n\nbody","url":"https://g/1"}],` + repository + `}`
	gitlabPush = `{"object_kind":"push","ref":"refs/heads/main","before":"aa","after":"bb","user_name":"Ann","total_commits_count":1,"commits":[{"id":"0123456789","message":"Fix","url":"https://g/1"}],"project":{"path_with_namespace":"o/r","web_url":"https://g/o/r"}}`
)

// What concerns one pull request, merge request or issue has the same thread.
func TestForgeThreads(t *testing.T) {
	const repo = `"repository":{"full_name":"o/r"},"sender":{"login":"a"}`
	for _, tt := range []struct {
		protocol protocol.Protocol
		event    string
		body     string
		want     string
	}{
		{GitHub(), "pull_request", `{"action":"opened","pull_request":{"number":7,"title":"t"},` + repo + `}`, "o/r#7"},
		{GitHub(), "issue_comment", `{"action":"created","issue":{"number":7,"title":"t","pull_request":{}},"comment":{"body":"b"},` + repo + `}`, "o/r#7"},
		{GitHub(), "pull_request_review", `{"action":"submitted","pull_request":{"number":7},"review":{"state":"approved"},` + repo + `}`, "o/r#7"},
		{GitHub(), "issues", `{"action":"opened","issue":{"number":8},` + repo + `}`, "o/r#8"},
		{GitHub(), "star", `{"action":"created",` + repo + `}`, ""},
		{GitLab(), "", `{"object_kind":"merge_request","project":{"path_with_namespace":"o/r"},"object_attributes":{"iid":7,"action":"open"}}`, "o/r!7"},
		{GitLab(), "", `{"object_kind":"note","project":{"path_with_namespace":"o/r"},"object_attributes":{"note":"n"},"merge_request":{"iid":7}}`, "o/r!7"},
		{GitLab(), "", `{"object_kind":"issue","project":{"path_with_namespace":"o/r"},"object_attributes":{"iid":7,"action":"close"}}`, "o/r#7"},
	} {
		if d, _ := read(t, tt.protocol, tt.body, "X-GitHub-Event: "+tt.event); d.Thread != tt.want {
			t.Errorf("%s: %q, want %q", tt.body, d.Thread, tt.want)
		}
	}
}

func TestGitHub(t *testing.T) {
	const pull = `"pull_request":{"number":2,"title":"Add x","html_url":"https://g/2","body":"because","merged":true}`
	for _, tt := range []struct {
		event, body, text string
		priority          int
	}{
		{"push", pushed, "ann pushed 1 commit (https://g/c) to main\n\n• 01234567 (https://g/1) Fix <it>", 0},
		{"push", strings.Replace(pushed, `"ref"`, `"forced":true,"ref"`, 1), "ann force-pushed 1 commit (https://g/c) to main\n\n• 01234567 (https://g/1) Fix <it>", 0},
		{"create", `{"ref":"v1","ref_type":"tag",` + repository + `}`, "ann created the tag v1", 0},
		{"pull_request", `{"action":"opened",` + pull + `,` + repository + `}`, "ann opened #2 Add x (https://g/2)\n\n> because", 0},
		{"pull_request", `{"action":"closed",` + pull + `,` + repository + `}`, "ann merged #2 Add x (https://g/2)", 0},
		{"pull_request_review", `{"action":"submitted","review":{"state":"changes_requested","body":"no","html_url":"https://g/r"},` + pull + `,` + repository + `}`, "ann requested changes to (https://g/r) #2 Add x (https://g/2)\n\n> no", 0},
		{"issue_comment", `{"action":"created","issue":{"number":1,"title":"Bug","html_url":"https://g/1"},"comment":{"body":"<b>hi</b>","html_url":"https://g/1#c"},` + repository + `}`, "ann commented (https://g/1#c) on #1 Bug (https://g/1)\n\n> <b>hi</b>", 0},
		{"pull_request", `{"action":"converted_to_draft",` + pull + `,` + repository + `}`, "ann made #2 Add x (https://g/2) a draft", 0},
		{"check_run", `{"action":"completed","check_run":{"name":"lint","head_sha":"0123456789","conclusion":"failure","html_url":"https://g/c","app":{"slug":"ci"}},` + repository + `}`, "The check lint (https://g/c) of 01234567 ended with failure", 1},
		{"status", `{"sha":"0123456789","state":"error","context":"ci/build","description":"it broke","target_url":"https://c/1","commit":{"html_url":"https://g/s"},` + repository + `}`, "ci/build reports error (https://c/1) for 01234567 (https://g/s): it broke", 1},
		{"deployment_review", `{"action":"requested","environment":"prod","workflow_run":{"name":"CD","html_url":"https://g/w"},` + repository + `}`, "ann asked for an approval of the deployment to prod by CD (https://g/w)", 0},
		{"workflow_run", `{"action":"completed","workflow_run":{"name":"CI","run_number":5,"head_branch":"main","conclusion":"timed_out","html_url":"https://g/w"},` + repository + `}`, "The workflow CI #5 (https://g/w) of main ended with timed out", 1},
		{"release", `{"action":"published","release":{"tag_name":"v1","html_url":"https://g/v1"},` + repository + `}`, "ann released v1 (https://g/v1)", 1},
		{"code_scanning_alert", `{"action":"created","alert":{"html_url":"https://g/a","rule":{"id":"java/sql-injection","severity":"error","description":"Query built from user-controlled sources"}},` + repository + `}`, "Security alert: Query built from user-controlled sources (https://g/a) (error)", 1},
		{"code_scanning_alert", `{"action":"reopened","alert":{"html_url":"https://g/a","rule":{"severity":"note","description":"Style"}},` + repository + `}`, "Security alert: Style (https://g/a) (note)", 0},
		{"dependabot_alert", `{"action":"created","alert":{"html_url":"https://g/a","security_advisory":{"severity":"high","summary":"XSS"}},` + repository + `}`, "Security alert: XSS (https://g/a) (high)", 1},
		{"ping", `{"zen":"z",` + repository + `}`, "ann connected this webhook", 0},
	} {
		d, text := read(t, GitHub(), tt.body, "X-GitHub-Event: "+tt.event, "X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958")
		text = strings.NewReplacer("`", "", "**", "").Replace(text)
		if text != "[o/r (https://g/o/r)] "+tt.text || *d.Priority != tt.priority || d.IdempotencyKey != "github:72d3162e-cc78-11e3-81ab-4c9367dc0958" {
			t.Errorf("%s: %q %d %s\nwant %q", tt.event, text, *d.Priority, d.IdempotencyKey, tt.text)
		}
	}
}

// Events that nobody wants to read, and events to come, are taken and make no message.
func TestGitHubIgnores(t *testing.T) {
	for event, body := range map[string]string{
		"label": `{"action":"created"}`, "check_run": `{"action":"completed","check_run":{"conclusion":"failure","app":{"slug":"github-actions"}}}`, "status": `{"state":"success"}`, "push": `{"ref":"refs/tags/v1"}`, "workflow_run": `{"action":"completed","workflow_run":{"conclusion":"success"}}`,
		"issues": `{"action":"labeled","issue":{"number":1}}`, "to_come": `{"action":5,"pull_request":"x"}`, "": "{}",
	} {
		if b, err := submit(t, GitHub(), protocol.App{}, body, "X-GitHub-Event: "+event); err != nil || len(b.Drafts) != 0 || b.Ignored != 1 {
			t.Errorf("%s: %v, %+v", event, err, b)
		}
	}
	if _, err := submit(t, GitHub(), protocol.App{}, "nonsense"); refusal.KindOf(err) != refusal.KindInvalid {
		t.Errorf("no JSON: %v", err)
	}
}

func TestForgeSignatures(t *testing.T) {
	secret := []byte("It's a Secret to Everybody")
	app := protocol.App{Secret: func() ([]byte, error) { return secret, nil }}
	const body = "{}"
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(body))
	sum := hex.EncodeToString(mac.Sum(nil))
	signed := func(key []byte, at time.Time) []string {
		seconds := strconv.FormatInt(at.Unix(), 10)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("id." + seconds + "." + body))
		return []string{"webhook-id: id", "webhook-timestamp: " + seconds, "webhook-signature: v1,AAAA v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}
	}
	signing := protocol.App{Secret: func() ([]byte, error) { return []byte("whsec_" + base64.StdEncoding.EncodeToString(secret)), nil }}
	if _, err := submit(t, GitLab(), signing, body, signed(secret, time.Now())...); err != nil {
		t.Errorf("a signing token: %v", err)
	}
	for _, tt := range []struct {
		protocol protocol.Protocol
		headers  []string
		ok       bool
	}{
		{GitHub(), []string{"X-Hub-Signature-256: sha256=" + sum}, true},
		{GitHub(), []string{"X-Hub-Signature-256: " + sum}, false},
		{GitHub(), nil, false},
		{Gitea(), []string{"X-Gitea-Signature: " + sum}, true},
		{Gitea(), []string{"X-Forgejo-Event: push", "X-Forgejo-Signature: " + sum}, true},
		{Gitea(), []string{"X-Gitea-Signature: 00" + sum}, false},
		{GitLab(), []string{"X-Gitlab-Token: " + string(secret)}, true},
		{GitLab(), []string{"X-Gitlab-Token: wrong"}, false},
		{GitLab(), signed(secret, time.Now()), true},
		{GitLab(), signed(secret, time.Now().Add(-time.Hour)), false},
		{GitLab(), signed([]byte("another"), time.Now()), false},
	} {
		_, err := submit(t, tt.protocol, app, body, tt.headers...)
		if (err == nil) != tt.ok || err != nil && refusal.KindOf(err) != refusal.KindUnauthorized {
			t.Errorf("%s %q: %v", tt.protocol.Name, tt.headers, err)
		}
	}
}

func TestGitea(t *testing.T) {
	const pull = `"pull_request":{"number":2,"title":"Add x","html_url":"https://g/2"}`
	for _, tt := range []struct{ header, body, text string }{
		{"X-Gitea-Event: push", strings.Replace(pushed, `"compare"`, `"compare_url"`, 1), "ann pushed 1 commit (https://g/c) to main\n\n• 01234567 (https://g/1) Fix <it>"},
		{"X-Forgejo-Event: push", strings.Replace(pushed, `"compare"`, `"compare_url"`, 1), "ann pushed 1 commit (https://g/c) to main\n\n• 01234567 (https://g/1) Fix <it>"},
		{"X-Gitea-Event: pull_request_comment", `{"action":"reviewed","review":{"type":"pull_request_review_comment","content":"hm"},` + pull + `,` + repository + `}`, "ann commented on #2 Add x (https://g/2)\n\n> hm"},
		{"X-Gitea-Event: pull_request_approved", `{"action":"reviewed","review":{"type":"pull_request_review_approved"},` + pull + `,` + repository + `}`, "ann approved #2 Add x (https://g/2)"},
		{"X-Gitea-Event: wiki", `{"action":"edited","page":"Home",` + repository + `}`, "ann edited the wiki page Home"},
	} {
		_, text := read(t, Gitea(), tt.body, tt.header)
		if text = strings.NewReplacer("`", "", "**", "").Replace(text); text != "[o/r (https://g/o/r)] "+tt.text {
			t.Errorf("%s: %q\nwant %q", tt.header, text, tt.text)
		}
	}
}

func TestGitLab(t *testing.T) {
	const project = `"user":{"name":"Ann"},"project":{"path_with_namespace":"o/r","web_url":"https://g/o/r"}`
	for _, tt := range []struct {
		body, text string
		priority   int
	}{
		{gitlabPush, "Ann pushed 1 commit (https://g/o/r/-/compare/aa...bb) to main\n\n• 01234567 (https://g/1) Fix", 0},
		{`{"object_kind":"tag_push","ref":"refs/tags/v1","after":"bb",` + project + `}`, "Ann created the tag v1", 0},
		{`{"object_kind":"merge_request","object_attributes":{"iid":3,"title":"Add","url":"https://g/3","action":"open","description":"why"},` + project + `}`, "Ann opened !3 Add (https://g/3)\n\n> why", 0},
		{`{"object_kind":"merge_request","object_attributes":{"iid":3,"title":"Add","url":"https://g/3","action":"merge"},` + project + `}`, "Ann merged !3 Add (https://g/3)", 0},
		{`{"object_kind":"note","object_attributes":{"note":"hm","url":"https://g/n"},"issue":{"iid":4,"title":"Bug","url":"https://g/4"},` + project + `}`, "Ann commented (https://g/n) on #4 Bug (https://g/4)\n\n> hm", 0},
		{`{"object_kind":"pipeline","object_attributes":{"id":9,"status":"failed","ref":"main"},` + project + `}`, "The pipeline #9 (https://g/o/r/-/pipelines/9) of main failed", 1},
	} {
		d, text := read(t, GitLab(), tt.body, "Idempotency-Key: k1")
		text = strings.NewReplacer("`", "", "**", "").Replace(text)
		if text != "[o/r (https://g/o/r)] "+tt.text || *d.Priority != tt.priority || d.IdempotencyKey != "gitlab:k1" {
			t.Errorf("%q %d %s\nwant %q", text, *d.Priority, d.IdempotencyKey, tt.text)
		}
	}
	for _, body := range []string{"{}", `{"object_kind":"build"}`, `{"object_kind":"pipeline","object_attributes":{"status":"success"}}`, `{"object_kind":"note","object_attributes":{"system":true}}`} {
		if b, err := submit(t, GitLab(), protocol.App{}, body); err != nil || b.Ignored != 1 {
			t.Errorf("%s: %v, %+v", body, err, b)
		}
	}
}

// Gitea's and Forgejo's own events of Actions.
func TestGitea_Actions(t *testing.T) {
	const run = `"run":{"id":5,"title":"Fix x","workflow_id":"test.yml","index_in_repo":12,"prettyref":"main","commit_sha":"0123456789","html_url":"https://f/12","repository":{"full_name":"o/r","html_url":"https://f/o/r"}}`
	for _, tt := range []struct {
		forge, event, body, want string
		priority                 int
	}{
		{"Forgejo", "action_run_failure", `{"action":"failure",` + run + `}`, "[o/r (https://f/o/r)] The workflow test.yml #12 (https://f/12) of main failed\n\n> Fix x", 1},
		{"Forgejo", "action_run_recover", `{"action":"recover","prior_status":"failure",` + run + `}`, "[o/r (https://f/o/r)] The workflow test.yml #12 (https://f/12) of main succeeds again\n\n> Fix x", 0},
		{"Gitea", "workflow_run", `{"action":"completed","workflow":{"name":"CI"},"workflow_run":{"display_title":"Fix x","path":"ci.yml@refs/heads/main","run_number":3,"head_branch":"main","conclusion":"failure","html_url":"https://t/3"}}`, "The workflow CI #3 (https://t/3) of main ended with failure", 1},
		{"Gitea", "workflow_run", `{"action":"completed","workflow_run":{"path":".gitea/workflows/ci.yml@refs/heads/main","run_number":3,"head_branch":"main","conclusion":"failure","html_url":"https://t/3"}}`, "The workflow ci.yml #3 (https://t/3) of main ended with failure", 1},
	} {
		d, text := read(t, Gitea(), tt.body, "X-"+tt.forge+"-Event: "+tt.event)
		text = strings.NewReplacer("`", "", "**", "").Replace(text)
		if text != tt.want || *d.Priority != tt.priority {
			t.Errorf("%s: %d %q, want %q", tt.event, *d.Priority, text, tt.want)
		}
	}
	if b, err := submit(t, Gitea(), protocol.App{}, `{"action":"success",`+run+`}`, "X-Forgejo-Event: action_run_success"); err != nil || len(b.Drafts) != 0 {
		t.Errorf("success: %+v, %v", b, err)
	}
}
