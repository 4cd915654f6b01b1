package web

// sender is a program that sends through an address of its own.
type sender struct{ Name, URL string }

// senders returns the addresses for programs of other services.
func senders(base, token string) []sender {
	list := []sender{
		{"Alertmanager", "/hook/alertmanager/"},
		{"Grafana", "/hook/grafana/"},
		{"GitHub", "/hook/github/"},
		{"GitLab", "/hook/gitlab/"},
		{"Gitea, Forgejo", "/hook/gitea/"},
		{"Slack", "/hook/slack/"},
		{"Mattermost, Rocket.Chat", "/hooks/"},
		{"Discord", "/api/webhooks/1/"},
		{"Microsoft Teams", "/hook/teams/"},
		{"ntfy", "/"},
		{"Uptime Kuma", "/hook/uptimekuma/"},
		{"healthchecks.io", "/hook/healthchecks/"},
		{"matrix-hookshot", "/webhook/"},
		{"Anything else", "/hook/generic/"},
	}
	for i := range list {
		list[i].URL = base + list[i].URL + token
	}
	return append(list, sender{"Pushover", base + "/1/messages.json, with the token as the API token"})
}
