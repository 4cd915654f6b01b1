package protocol

import (
	"net/http"
	"strings"
	"testing"

	"slipway/relay/internal/refusal"
)

func TestTeams(t *testing.T) {
	const card = `{"type":"AdaptiveCard","body":[{"type":"TextBlock","text":"Deploy","style":"heading"},{"type":"Container","items":[{"type":"TextBlock","text":"**ok**"},{"type":"FactSet","facts":[{"title":"env","value":"prod"}]}]},{"type":"RichTextBlock","inlines":["a",{"type":"TextRun","text":"b"}]}],"actions":[{"type":"Action.OpenUrl","title":"Open","url":"https://e.org"}]}`
	want := shown{"", `<strong>Deploy</strong><br><strong>ok</strong><br><strong>env:</strong> prod<br>ab<br><a href="https://e.org">Open</a>`, "text/html"}
	b, err := submit(t, Teams(), "/workflows/w/triggers/manual/paths/invoke?api-version=1&sig="+token, `{"type":"message","attachments":[{"contentType":"application/vnd.microsoft.card.adaptive","content":`+card+`}]}`)
	want.check(t, "workflow", b, err)
	b, err = submit(t, Teams(), "/hook/teams/"+token, card)
	want.check(t, "bare card", b, err)
	b, err = submit(t, Teams(), "/hook/teams/"+token, `{"@type":"MessageCard","title":"T","text":"x","sections":[{"activityTitle":"s","facts":[{"name":"n","value":"v"}]}],"potentialAction":[{"@type":"OpenUri","name":"Go","targets":[{"os":"default","uri":"https://e.org"}]},{"@type":"ViewAction","name":"See","target":["https://e.org/v"]}]}`)
	shown{"T", `x<br><strong>s</strong><br><strong>n:</strong> v<br><a href="https://e.org">Go</a><br><a href="https://e.org/v">See</a>`, "text/html"}.check(t, "message card", b, err)
}

func TestTeams_CodeAndImages(t *testing.T) {
	const card = `{"type":"AdaptiveCard","body":[{"type":"CodeBlock","codeSnippet":"if a < b {\n\tc()\n}","language":"Go"},{"type":"ImageSet","images":[{"type":"Image","altText":"graph","url":"https://e.org/g.png"}]}]}`
	b, err := submit(t, Teams(), "/hook/teams/"+token, card)
	shown{"", "<pre><code>if a &lt; b {\n\tc()\n}</code></pre><br><a href=\"https://e.org/g.png\">graph</a>", "text/html"}.check(t, "card", b, err)
}

func TestTeams_Mention(t *testing.T) {
	b, err := submit(t, Teams(), "/hook/teams/"+token, `{"type":"AdaptiveCard","body":[{"type":"TextBlock","text":"Hi <at>Ann</at>"}],"msteams":{"entities":[{"type":"mention","text":"<at>Ann</at>","mentioned":{"id":"ann@example.org","name":"Ann"}}]}}`)
	shown{"", "Hi @Ann", "text/html"}.check(t, "card", b, err)
}

func TestTeams_Table(t *testing.T) {
	const cell = `{"type":"TableCell","items":[{"type":"TextBlock","text":`
	const card = `{"type":"AdaptiveCard","body":[{"type":"TextBlock","text":"Disks"},{"type":"Table","columns":[{"width":1},{"width":1}],"rows":[` +
		`{"type":"TableRow","cells":[` + cell + `"host"}]},` + cell + `"free"}]}]},{"type":"TableRow","cells":[` + cell + `"db1"},{"type":"TextBlock","text":"db2"}]},` + cell + `"**3** GB"}]}]}]}]}`
	b, err := submit(t, Teams(), "/hook/teams/"+token, card)
	shown{"", "Disks<br><table><tr><td>host</td><td>free</td></tr><tr><td>db1<br>db2</td><td><strong>3</strong> GB</td></tr></table>", "text/html"}.check(t, "card", b, err)
}

// Senders compare the answer: that to a message card is the old connectors', that to an adaptive card the workflows'.
func TestTeams_Answers(t *testing.T) {
	const card = `{"type":"AdaptiveCard","body":[{"type":"TextBlock","text":"x"}]}`
	for body, want := range map[string]string{
		`{"@type":"MessageCard","text":"x"}`: "1",
		`{"summary":"s","sections":[{"activityTitle":"Problem","text":"t","facts":[{"name":"Host","value":"web01"}]}]}`: "1",
		`{"text":"x"}`: "1",
		card:           "",
		`{"type":"message","attachments":[{"contentType":"application/vnd.microsoft.card.adaptive","content":` + card + `}]}`: "",
		`{"attachments":[{"content":` + card + `}]}`: "",
	} {
		b, err := submit(t, Teams(), "/hook/teams/"+token, body)
		if err != nil {
			t.Fatal(err)
		}
		status := http.StatusAccepted
		if want == "1" {
			status = http.StatusOK
		}
		if w := replied(Teams(), b); w.Code != status || w.Body.String() != want {
			t.Errorf("%s: %d %q, want %d %q", body, w.Code, w.Body, status, want)
		}
	}
}

func TestTeamsRefuses(t *testing.T) {
	for _, body := range []string{"{}", "{", `{"attachments":[{"content":{"type":"AdaptiveCard"}}]}`, `{"attachments":[` + strings.Repeat(`{"content":{"text":"x"}},`, maxCardParts) + `{"content":{"text":"x"}}]}`} {
		if _, err := submit(t, Teams(), "/hook/teams/"+token, body); refusal.KindOf(err) != refusal.KindInvalid {
			t.Errorf("%.60s: %v", body, err)
		}
	}
}
