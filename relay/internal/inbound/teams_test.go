package inbound

import (
	"net/http"
	"strings"
	"testing"

	"slipway/relay/internal/refusal"
)

func TestTeams(t *testing.T) {
	const card = `{"type":"AdaptiveCard","body":[{"type":"TextBlock","text":"Deploy","style":"heading"},{"type":"Container","items":[{"type":"TextBlock","text":"**ok**"},{"type":"FactSet","facts":[{"title":"env","value":"prod"}]}]},{"type":"RichTextBlock","inlines":["a",{"type":"TextRun","text":"b"}]}],"actions":[{"type":"Action.OpenUrl","title":"Open","url":"https://e.org"}]}`
	want := shown{"", `<strong>Deploy</strong><br><strong>ok</strong><br><strong>env:</strong> prod<br>ab<br><a href="https://e.org">Open</a>`, "text/html"}
	b, err := post(t, Teams(), "/workflows/w/triggers/manual/paths/invoke?api-version=1&sig="+token, `{"type":"message","attachments":[{"contentType":"application/vnd.microsoft.card.adaptive","content":`+card+`}]}`)
	want.check(t, "workflow", b, err)
	b, err = post(t, Teams(), "/hook/teams/"+token, card)
	want.check(t, "bare card", b, err)
	b, err = post(t, Teams(), "/hook/teams/"+token, `{"@type":"MessageCard","title":"T","text":"x","sections":[{"activityTitle":"s","facts":[{"name":"n","value":"v"}]}],"potentialAction":[{"@type":"OpenUri","name":"Go","targets":[{"os":"default","uri":"https://e.org"}]},{"@type":"ViewAction","name":"See","target":["https://e.org/v"]}]}`)
	shown{"T", `x<br><strong>s</strong><br><strong>n:</strong> v<br><a href="https://e.org">Go</a><br><a href="https://e.org/v">See</a>`, "text/html"}.check(t, "message card", b, err)
	if w := replied(Teams(), b); w.Code != http.StatusAccepted {
		t.Errorf("status %d", w.Code)
	}
}

func TestTeamsRefuses(t *testing.T) {
	for _, body := range []string{"{}", "{", `{"attachments":[{"content":{"type":"AdaptiveCard"}}]}`, `{"attachments":[` + strings.Repeat(`{"content":{"text":"x"}},`, maxCardParts) + `{"content":{"text":"x"}}]}`} {
		if _, err := post(t, Teams(), "/hook/teams/"+token, body); refusal.KindOf(err) != refusal.KindInvalid {
			t.Errorf("%.60s: %v", body, err)
		}
	}
}
