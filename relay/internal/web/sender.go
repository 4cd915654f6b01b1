package web

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strings"
)

// sender is a program that sends through the relay as it stands, with what people enter in it or run.
type sender struct{ ID, Name, Snippet string }

// senders are the programs in the order of the page. BASE is the relay's address, HOST the same without its scheme, and TOKEN the
// application's token. Apprise's scheme has an S and Shoutrrr's URL has PLAIN, which depend on whether the relay has TLS.
var senders = []sender{
	{"alertmanager", "Alertmanager", `# alertmanager.yml
route: {receiver: relay}
receivers:
  - name: relay
    webhook_configs:
      - url: BASE/hook/alertmanager
        http_config: {authorization: {credentials: TOKEN}}`},
	{"grafana", "Grafana", `# Alerting, Contact points, New: integration Webhook
URL: BASE/hook/grafana/TOKEN`},
	{"github", "GitHub", `# Settings, Webhooks, Add webhook
Payload URL:  BASE/hook/github/TOKEN
Content type: application/json
Secret:       the application's webhook secret, or nothing
Events:       Send me everything`},
	{"gitlab", "GitLab", `# Settings, Webhooks, Add new webhook
URL:          BASE/hook/gitlab
Secret token: TOKEN`},
	{"gitea", "Gitea, Forgejo", `# Settings, Webhooks, Add webhook: Gitea or Forgejo
Target URL: BASE/hook/gitea/TOKEN
Secret:     the application's webhook secret, or nothing`},
	{"slack", "Slack", `# wherever a program asks for an incoming webhook of Slack
BASE/hook/slack/TOKEN`},
	{"mattermost", "Mattermost, Rocket.Chat", `# wherever a program asks for an incoming webhook
BASE/hooks/TOKEN`},
	{"discord", "Discord", `# wherever a program asks for a webhook of Discord
BASE/api/webhooks/1/TOKEN`},
	{"teams", "Microsoft Teams", `# wherever a program asks for a webhook or workflow of Teams
BASE/hook/teams/TOKEN`},
	{"ntfy", "ntfy", `curl -H 'Title: Backup' -H 'Priority: high' -d 'It failed' BASE/TOKEN

# in a program
Server:       BASE
Topic:        any
Access token: TOKEN`},
	{"gotify", "Gotify, Proxmox", `curl BASE/message -H 'X-Gotify-Key: TOKEN' -d 'title=Backup' -d 'message=It failed' -d 'priority=8'

# in a program
Server: BASE
Token:  TOKEN`},
	{"pushover", "Pushover", `curl BASE/1/messages.json -d token=TOKEN -d user=any -d 'message=It failed' -d priority=1`},
	{"apprise", "Apprise", `apprise -t Backup -b 'It failed' gotifyS://HOST/TOKEN`},
	{"shoutrrr", "Shoutrrr, Watchtower", `ntfy://:TOKEN@HOST/alertsPLAIN`},
	{"uptimekuma", "Uptime Kuma", `# Settings, Notifications, type Webhook
Post URL:     BASE/hook/uptimekuma/TOKEN
Request body: application/json`},
	{"healthchecks", "healthchecks.io", `# Integrations, Webhook, for "down" and for "up"
POST BASE/hook/healthchecks/TOKEN
Body: {"name": $NAME_JSON, "status": "$STATUS", "code": "$CODE", "now": "$NOW", "tags": "$TAGS"}`},
	{"servarr", "Sonarr, Radarr", `# Settings, Connect, Webhook
BASE/hook/sonarr/TOKEN`},
	{"registry", "A container registry", `# its config.yml
notifications:
  endpoints:
    - name: relay
      url: BASE/hook/registry
      headers: {Authorization: [Bearer TOKEN]}`},
	{"generic", "Anything else", `curl BASE/hook/generic/TOKEN -H 'Content-Type: application/json' -d '{"title": "Backup", "message": "It failed", "priority": 1, "url": "https://example.org"}'`},
}

// cron is what a job runs whose application expects heartbeats.
var cron = sender{"heartbeat", "Cron job (heartbeat)", `# crontab: report each success
0 3 * * * backup && curl -fsS -o /dev/null -X POST BASE/heartbeat/TOKEN`}

// Mail is where the relay takes email.
type Mail struct {
	ListenAddress string // "" if it takes none
	Domain        string
}

// sender returns what people enter in programs that send email. The host is that of the relay's address.
func (m Mail) sender(base string) []sender {
	_, port, err := net.SplitHostPort(m.ListenAddress)
	address, err2 := url.Parse(base)
	if err != nil || err2 != nil {
		return nil
	}
	return []sender{{"mail", "Mail", "Server:    " + net.JoinHostPort(address.Hostname(), port) + `
Login:     any name, password TOKEN
Recipient: any

# without a login
Recipient: TOKEN@` + cmp.Or(m.Domain, address.Hostname())}}
}

// sendersAt returns the senders with the address and the token filled in. beats adds the job that sends heartbeats.
func sendersAt(base, token string, mail Mail, beats bool) []sender {
	host, secure := strings.CutPrefix(base, "https://")
	letter, plain := "s", ""
	if !secure {
		host, letter, plain = strings.TrimPrefix(base, "http://"), "", "?scheme=http"
	}
	fill := strings.NewReplacer("BASE", base, "PLAIN", plain, "TOKEN", token, "HOST", host, "gotifyS", "gotify"+letter)
	list := slices.Concat(senders, mail.sender(base))
	if beats {
		list = slices.Insert(list, 0, cron)
	}
	for i, s := range list {
		list[i].Snippet = fill.Replace(s.Snippet)
	}
	return list
}
