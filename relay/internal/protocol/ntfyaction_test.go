package protocol

import (
	"encoding/json"
	"strings"
	"testing"

	"slipway/relay/internal/refusal"
)

func TestNtfyActions(t *testing.T) {
	for in, want := range map[string]string{
		`view, "Open, then acknowledge", https://g.example.org/d/1`:                    `[{"action":"view","label":"Open, then acknowledge","clear":false,"url":"https://g.example.org/d/1"}]`,
		`view, Silence, "https://am.example.org/#/silences/new?filter={a=x,b=y;z}"`:    `[{"action":"view","label":"Silence","clear":false,"url":"https://am.example.org/#/silences/new?filter={a=x,b=y;z}"}]`,
		`view, 'a;b', https://x.example.org; view, c, https://y.example.org;`:          `[{"action":"view","label":"a;b","clear":false,"url":"https://x.example.org"},{"action":"view","label":"c","clear":false,"url":"https://y.example.org"}]`,
		`http, Off, https://h.example/api, body='a=1;b=2;c=3;d=4'`:                     `[{"action":"http","label":"Off","clear":false,"url":"https://h.example/api","body":"a=1;b=2;c=3;d=4"}]`,
		`action="view", label = "say \"hi\"", url='https://x.example.org', clear=true`: `[{"action":"view","label":"say \"hi\"","clear":true,"url":"https://x.example.org"}]`,
		`http, Off, https://h.example, method=put, headers.X-A=1, headers.X-B="2, 3"`:  `[{"action":"http","label":"Off","clear":false,"url":"https://h.example","method":"PUT","headers":{"X-A":"1","X-B":"2, 3"}}]`,
		`broadcast, Snap, extras.cmd=pic, intent=io.example.X`:                         `[{"action":"broadcast","label":"Snap","clear":false,"intent":"io.example.X","extras":{"cmd":"pic"}}]`,
		`copy, Code, 123456`: `[{"action":"copy","label":"Code","clear":false,"value":"123456"}]`,
		` [{"action":"VIEW","label":"x","url":"https://x.example.org/?a=1,2;3"}]`: `[{"action":"view","label":"x","clear":false,"url":"https://x.example.org/?a=1,2;3"}]`,
		``: `null`,
		`view, View, https://g.example.org/?orgId=1; view, Silence, https://g.example/s`: `[{"action":"view","label":"View","clear":false,"url":"https://g.example.org/?orgId=1"},{"action":"view","label":"Silence","clear":false,"url":"https://g.example/s"}]`,
	} {
		list, err := ntfyActions(in)
		var got strings.Builder
		e := json.NewEncoder(&got)
		e.SetEscapeHTML(false)
		if encoding := e.Encode(list); err != nil || encoding != nil || strings.TrimSpace(got.String()) != want {
			t.Errorf("%s\n is %v, %s\nwant %s", in, err, got.String(), want)
		}
	}
	for in, reason := range map[string]string{
		`view, Map, https://maps.example.org/@52.5,13.4,10z`: "term '13.4' unknown",
		`launch, x, url=https://x.example.org`:               "'action' cannot be 'launch'",
		`view, , https://x.example.org`:                      "'label' is required",
		`view, x`:                                            "'url' is required",
		`view, x, https://x.example.org, colour=red`:         "key 'colour' unknown",
		`view, x, https://x.example.org, clear=maybe`:        "'clear' cannot be 'maybe'",
		`view, "x, https://x.example.org`:                    "not closed",
		`view, "x" y, https://x.example.org`:                 "unexpected text",
		`http, x, https://x.example.org, method=GET, body=a`: "'body' cannot be set",
		`[{"action":"open","label":"x"}]`:                    "'action' cannot be 'open'",
		`[`:                                                  "JSON error",
		`view,a,b;view,a,b;view,a,b;view,a,b`:                "only 3 actions",
		"view, \xff, https://x.example.org":                  "UTF-8",
		strings.Repeat("view,a,b;", 4000):                    "only 3 actions",
	} {
		if _, err := ntfyActions(in); refusal.KindOf(err) != refusal.KindInvalid || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.60s: %v, want %s", in, err, reason)
		}
	}
}
