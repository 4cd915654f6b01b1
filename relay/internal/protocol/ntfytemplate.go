package protocol

import (
	"errors"
	"regexp"
	"strings"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/template"
)

// ntfyTemplates are the templates that publishers name.
var ntfyTemplates = map[string]template.Set{
	"alertmanager": {
		Title: `{{if eq .status "resolved"}}Resolved{{else}}Firing{{end}}: {{with .groupLabels.alertname}}{{.}}{{else}}{{with index .alerts 0}}{{.labels.alertname}}{{end}}{{end}}`,
		Text: `{{range .alerts}}{{if eq .status "resolved"}}Resolved: {{else}}Firing: {{end}}{{default .labels.alertname .annotations.summary}}{{with .annotations.description}}
{{.}}{{end}}{{range $name, $value := .labels}}
{{$name}}: {{$value}}{{end}}{{with .generatorURL}}
{{.}}{{end}}
{{end}}`,
	},
	"grafana": {
		Title: `{{default "Grafana" .title}}`,
		Text: `{{if .message}}{{.message}}{{else}}{{range .alerts}}{{default .labels.alertname .annotations.summary}}{{with .valueString}}
{{.}}{{end}}
{{end}}{{end}}`,
	},
	"github": {
		Title: `{{default "GitHub" .repository.full_name}}{{with .action}}: {{.}}{{end}}{{if .commits}}: {{len .commits}} commits{{end}}`,
		Text: `{{with .pull_request}}#{{.number}} {{.title}}
{{.html_url}}{{else}}{{with .issue}}#{{.number}} {{.title}}
{{.html_url}}{{else}}{{with .release}}{{default .tag_name .name}}
{{.html_url}}{{else}}{{with .workflow_run}}{{.name}}: {{.conclusion}}
{{.html_url}}{{else}}{{range .commits}}{{trunc 80 .message}} ({{.author.name}})
{{end}}{{end}}{{end}}{{end}}{{end}}{{with .comment}}
{{.body}}{{end}}{{with .sender}}
{{.login}}{{end}}`,
	},
}

var disallowedCalls = regexp.MustCompile(`\{\{-?\s*(call|template|define|block)\b`)

// useTemplate makes the title and the text of templates over a body in JSON, which a parameter asks for: those in the message itself, or one
// with a name.
func (m *ntfyMessage) useTemplate(name string, body []byte) error {
	data, err := template.Payload(body)
	if err != nil {
		return refusal.Invalid("template body", "invalid request: message body must be JSON if templating is enabled")
	}
	set := template.Set{Title: m.Title, Text: m.Message}
	if !IsYes(name) {
		named, known := ntfyTemplates[strings.ToLower(name)]
		if !known {
			return refusal.Invalid("template name", "invalid request: template file not found; there are alertmanager, github and grafana")
		}
		set = named
	}
	if m.Title, err = ntfyText(set.Title, data); err == nil {
		m.Message, err = ntfyText(set.Text, data)
	}
	return err
}

// ntfyText executes a template.
func ntfyText(source string, data map[string]any) (string, error) {
	if source == "" {
		return "", nil
	}
	one := template.Set{Title: source} // which may be empty, as a text may not
	if disallowedCalls.MatchString(source) {
		return "", refusal.Invalid("template call", "invalid request: template contains disallowed function calls, e.g. template, call, or define")
	}
	if err := one.Check(); err != nil {
		return "", refusal.Invalid("template", "invalid request: could not parse template: "+reason(err))
	}
	made, err := one.Compile(template.Plain).Render(data)
	if err != nil {
		return "", refusal.Invalid("template execution", "invalid request: template execution failed: "+reason(err))
	}
	return *made.Title, nil
}

// reason returns an error of a template without the name of the application's field.
func reason(err error) string {
	var e *template.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return err.Error()
}
