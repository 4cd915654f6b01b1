package template

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func payload(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := Payload([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRender(t *testing.T) {
	data := payload(t, `{"token":"secret","a":"*b* <i>","n":1234567890,"f":1.5,"l":["x",2,null],"m":{"k":"v"},"url":"https://h/a_b?c=d&e=f","at":"2026-03-10T13:30:00Z","lines":"one\n# two"}`)
	for _, tt := range []struct {
		source string
		m      Markup
		want   string
	}{
		{`{{.a}}`, Plain, `*b* <i>`},
		{`{{.a}}`, HTML, `*b* &lt;i&gt;`},
		{`**{{.a}}**`, Markdown, `**\*b\* \<i\>**`},
		{`{{raw .a}} {{.a | raw}}`, Markdown, `*b* <i> *b* <i>`},
		{`{{$x := .a}}{{$x}}{{with .m}}{{.k}}{{end}}`, Markdown, `\*b\* \<i\>v`},
		{`{{.url}}`, Markdown, `https://h/a_b?c=d&e=f`},
		{`{{.lines}}`, Markdown, "one  \n\\# two"},
		{`{{.n}} {{.f}} {{.none}}|{{.token}}|`, Plain, `1234567890 1.5 ||`},
		{`{{.l}} {{join ", " .l}} {{json .m}} {{len .l}}`, Plain, `["x",2,null] x, 2,  {"k":"v"} 3`},
		{`{{default "d" .none}}{{upper "x"}}{{lower "X"}}{{trunc 2 "äöü"}}{{print "p" 1}}`, Plain, `dXxäö…p1`},
		{`{{date "02.01. 15:04" .at}} {{date "2006" .n}} {{contains "b" .a}} {{eq .n 1234567890}}`, Plain, `10.03. 13:30 2009 true true`},
		{`{{range $i, $v := .l}}{{if eq $i 2}}{{break}}{{end}}{{$v}};{{else}}none{{end}}{{range .none}}{{else}}none{{end}}`, Plain, `x;2;none`},
	} {
		got, err := execute(tt.source, data, tt.m)
		if err != nil || got != tt.want {
			t.Errorf("%s: %q, %v", tt.source, got, err)
		}
	}
}

// Hostile templates and payloads end soon, with an error.
func TestRender_Bounds(t *testing.T) {
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 4000), ",") + "]"
	data := payload(t, `{"l":`+list+`,"s":"`+strings.Repeat("x", 100_000)+`"}`)
	for _, source := range []string{
		`{{range .l}}{{range $.l}}{{range $.l}}{{end}}{{end}}{{end}}`,
		`{{range 1000000000}}{{end}}`,
		`{{range .l}}{{continue}}{{end}}`,
		`{{$x := "xx"}}{{range .l}}{{$x = print $x $x}}{{end}}`,
		`{{range 1000}}{{$x := upper $.s}}{{end}}`,
		`{{range 1000}}{{$.s}}{{end}}`,
		`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`,
		`{{block "a" .}}{{end}}`,
		`{{printf "%1000000d" 1}}`, `{{call .s}}`, `{{html .s}}`, `{{(index .l 1) | js}}`, `{{_round}}`, `{{_text .s}}`,
		`{{.a`, `{{.l.x}}`, `{{index .l 5000}}`, strings.Repeat("x", maxSource+1), strings.Repeat("{{.a}}", maxNodes),
	} {
		begin := time.Now()
		if got, err := execute(source, data, Markdown); err == nil {
			t.Errorf("%.40s: %.40q", source, got)
		} else if len(err.Error()) > 500 {
			t.Errorf("%.40s: %d bytes of error", source, len(err.Error()))
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%.40s took %s", source, took)
		}
	}
	for _, body := range []string{`[` + strings.Repeat("1,", 6000) + `1]`, strings.Repeat("[", 30) + strings.Repeat("]", 30), `{`} {
		if _, err := Payload([]byte(body)); err == nil {
			t.Errorf("%.30s is taken", body)
		}
	}
}

func TestSet_Refuses(t *testing.T) {
	for field, s := range map[string]Set{
		"template_title": {Title: "{{"}, "template_text": {Text: `{{if eq .a "b"}}x{{end}}`}, "template_priority": {Priority: "3"}, "template_link": {Link: "javascript:alert(1)"},
	} {
		_, err := s.Render(map[string]any{}, Markdown)
		if err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
		if checked := s.Check(); (checked != nil) != (field == "template_title") {
			t.Errorf("%s: %v", field, checked)
		}
	}
}

func TestPresets(t *testing.T) {
	samples := []string{
		`{"alerts":[{"status":"firing","labels":{"alertname":"Disk","instance":"db_1","severity":"critical"},"annotations":{"summary":"*full*"},"generatorURL":"http://prom/g?x=1"}]}`,
		`{"repository":{"full_name":"a/b"},"compare":"https://forge/a/b/compare/1..2","commits":[{"message":"fix_it","author":{"name":"Anna"}}]}`,
		`{"monitor":{"name":"web"},"heartbeat":{"status":0,"msg":"timeout"}}`,
		`{"x":1}`,
	}
	wants := []string{
		"Disk on db_1|\\*full\\*\n- alertname: Disk\n- instance: db\\_1\n- severity: critical|1|http://prom/g?x=1",
		"a/b: 1 commits|- fix\\_it (Anna)|0|https://forge/a/b/compare/1..2",
		"web is down|timeout|1|",
		"Message|\\{\\\"x\\\"\\:1\\}|0|",
	}
	for i, p := range Presets() {
		data := Alerts(payload(t, samples[i]), 1)[0]
		m, err := p.Render(data, Markdown)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		priority := 0
		if m.Priority != nil {
			priority = *m.Priority
		}
		if got := fmt.Sprintf("%s|%s|%d|%s", *m.Title, *m.Text, priority, m.Link); got != wants[i] {
			t.Errorf("%s: %q", p.Name, got)
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, p := range Presets() {
		f.Add(p.Text, `{"alerts":[{}],"a":[1,{"b":null}]}`)
	}
	f.Fuzz(func(_ *testing.T, source, body string) {
		data, err := Payload([]byte(body))
		if err != nil || !json.Valid([]byte(body)) {
			return
		}
		_, _ = Set{Text: source}.Render(data, Markdown)
	})
}
