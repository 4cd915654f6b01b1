package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func payload(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := Payload([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// execute runs a template by itself.
func execute(source string, data map[string]any, m Markup) (string, error) {
	b := &budget{}
	c, err := compile(source, m, b)
	if err != nil {
		return "", err
	}
	return c.execute(data, b)
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
		if got, err := execute(source, data, Markdown); err == nil {
			t.Errorf("%.40s: %.40q", source, got)
		} else if len(err.Error()) > 500 {
			t.Errorf("%.40s: %d bytes of error", source, len(err.Error()))
		}
	}
	for _, body := range []string{`[` + strings.Repeat("1,", 6000) + `1]`, strings.Repeat("[", 30) + strings.Repeat("]", 30), `{`} {
		if _, err := Payload([]byte(body)); err == nil {
			t.Errorf("%.30s is taken", body)
		}
	}
}

// Work that writes nothing is charged for before it is done, at the values that make it expensive.
func TestRender_ChargesForWork(t *testing.T) {
	var fields []string
	for i := range 4000 {
		fields = append(fields, fmt.Sprintf(`"k%d":"%s"`, i, strings.Repeat("x", 400)))
	}
	data := payload(t, "{"+strings.Join(fields, ",")+`,"s":"`+strings.Repeat("y", maxString)+`","l":[1,2,3]}`)
	for _, source := range []string{
		`{{range 2000}}{{if contains $ $}}{{end}}{{end}}`,
		`{{range 2000}}{{if contains "x" $}}{{end}}{{end}}`,
		`{{range 2000}}{{if contains "x" $.s}}{{end}}{{end}}`,
		`{{range 2000}}{{$x := json $}}{{end}}`,
		`{{range 2000}}{{$x := join "" $}}{{end}}`,
		`{{range 2000}}{{$x := trunc 1 $.s}}{{end}}`,
		`{{range 2000}}{{$x := default "" (trunc 1 $)}}{{end}}`,
		`{{range 2000}}{{range $}}{{break}}{{end}}{{end}}`,
		`{{range 2000}}` + strings.Repeat(`{{if eq $.s $.s}}{{end}}`, 60) + `{{end}}`,
	} {
		b := &budget{}
		c, err := compile(source, Plain, b)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if _, err := c.execute(data, b); !errors.Is(err, errBytes) && !errors.Is(err, errSteps) && !errors.Is(err, errRounds) {
			t.Errorf("%s: %v", source, err)
		}
		if b.bytes > maxBytes+maxString || b.steps > maxSteps+8*len(data) {
			t.Errorf("%s: %d bytes and %d steps", source, b.bytes, b.steps)
		}
	}
}

// All messages of a request share a budget: a thousand alerts do not get a thousand of it.
func TestRender_RequestHasABudget(t *testing.T) {
	data := payload(t, `{"s":"`+strings.Repeat("y", maxString)+`"}`)
	templates := Set{Text: `{{range 200}}{{if contains "x" $.s}}{{end}}{{end}}done`}.Compile(Plain)
	rendered := 0
	for range 1000 {
		m, err := templates.Render(data)
		if err == nil && *m.Text == "done" {
			rendered++
		} else if !errors.Is(err, errBytes) {
			t.Fatal(err)
		}
	}
	if rendered == 0 || rendered > allBytes/(200*maxString) {
		t.Errorf("%d messages are rendered", rendered)
	}
}

func TestSet_Refuses(t *testing.T) {
	for field, s := range map[string]Set{
		"template_title": {Title: "{{"}, "template_text": {Text: `{{if eq .a "b"}}x{{end}}`}, "template_priority": {Priority: "3"}, "template_link": {Link: "javascript:alert(1)"},
	} {
		_, err := s.Compile(Markdown).Render(map[string]any{})
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
		m, err := p.Compile(Markdown).Render(ForAlert(payload(t, samples[i]), 0, 1))
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
		_, _ = Set{Text: source}.Compile(Markdown).Render(data)
	})
}
