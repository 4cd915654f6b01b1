package template

// Preset is a set of templates for a sender, to copy and change.
type Preset struct {
	Name string
	Set
}

// Presets returns the presets.
func Presets() []Preset {
	return []Preset{
		{"Alertmanager, Grafana", Set{
			Title:    `{{.alert.labels.alertname}}{{with .alert.labels.instance}} on {{.}}{{end}}`,
			Text:     `{{default .alert.labels.alertname .alert.annotations.summary}}{{range $name, $value := .alert.labels}}` + "\n- {{$name}}: {{$value}}{{end}}",
			Priority: `{{if eq .alert.status "resolved"}}0{{else if eq .alert.labels.severity "critical"}}1{{else}}0{{end}}`,
			Link:     `{{.alert.generatorURL}}`,
		}},
		{"GitHub, Gitea: pushes", Set{
			Title: `{{.repository.full_name}}: {{len .commits}} commits`,
			Text:  `{{range .commits}}- {{trunc 80 .message}} ({{.author.name}})` + "\n{{end}}",
			Link:  `{{.compare}}`,
		}},
		{"Uptime Kuma", Set{
			Title:    `{{.monitor.name}} is {{if eq .heartbeat.status 1}}up{{else}}down{{end}}`,
			Text:     `{{.heartbeat.msg}}`,
			Priority: `{{if eq .heartbeat.status 1}}0{{else}}1{{end}}`,
		}},
		{"Other JSON", Set{
			Title: `{{default "Message" .title}}`,
			Text:  `{{default (json .) .message}}`,
		}},
	}
}
