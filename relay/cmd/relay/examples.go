package main

import "slipway/shared/command"

// examples are what `relay COMMAND --help` shows. Tests run them.
var examples = command.Examples{
	"serve": {
		"relay serve /etc/relay/config.yml",
		"RELAY_LOGGING_LEVEL=debug relay serve /etc/relay/config.yml",
	},
	"setup": {
		"relay setup --secrets /etc/relay/secrets --registration-secret-file /srv/synapse/registration.secret",
		"relay setup --secrets /etc/relay/secrets --app backup",
	},
	"setup show": {
		"relay setup show --secrets /etc/relay/secrets",
		"relay setup show --secrets /etc/relay/secrets --json",
	},
	"import pushbits": {
		"relay import pushbits /srv/pushbits.db --dry-run",
		"relay import pushbits /srv/pushbits.db",
	},
	"migrate": {
		"relay migrate --from sqlite:/var/lib/relay/relay.db --to 'postgres:host=db dbname=relay user=relay' --password-file /run/secrets/db",
		"relay migrate --from postgres://relay@db/relay --to sqlite:/var/lib/relay/copy.db --password-file /run/secrets/db",
	},
	"backup": {
		"relay backup saved.db",
		"relay backup - | gzip >saved.db.gz",
	},
	"config check": {
		"relay config check",
		"relay config check --config /etc/relay/config.yml",
	},
	"config show": {
		"relay config show",
		"RELAY_HTTP_LISTENADDRESS=:8081 relay config show",
	},
	"config reference": {
		"relay config reference >settings.md",
		"relay config reference | grep matrix",
	},
	"config schema": {
		"relay config schema >settings.schema.json",
		"relay config schema | grep logging",
	},
	"app create": {
		"relay app create grafana",
		"relay app create deploys --room '#deploys:example.org' --priority high --quiet",
	},
	"app list": {
		"relay app list",
		"relay app list --json",
	},
	"app show": {
		"relay app show backup",
		"relay app show 1 --json",
	},
	"app token create": {
		"relay app token create backup --grace 1d",
		"relay app token create backup --quiet",
	},
	"app secret create": {
		"relay app secret create backup",
		"printf %s \"$PASSWORD and more\" | relay app secret create backup --secret-stdin",
	},
	"app secret delete": {
		"relay app secret delete backup --yes",
		"relay app secret delete 1 --yes",
	},
	"app set": {
		"relay app set backup --heartbeat 1d --heartbeat-grace 1h",
		"relay app set backup --critical-retry 5m --template-title ''",
		"relay app set 1 --name nightly-backup --heartbeat 0",
	},
	"app delete": {
		"relay app delete backup --yes",
		"relay app delete 2 --yes",
	},
	"user list": {
		"relay user list",
		"relay user list --json",
	},
	"user show": {
		"relay user show anna",
		"relay user show 2 --json",
	},
	"user create": {
		"relay user create carol --matrix-id @carol:example.org",
		"printf %s \"$PASSWORD\" | relay user create dave --admin --password-stdin",
	},
	"user set": {
		"relay user set anna --matrix-id @anna:example.org --admin",
		"relay user set anna --new-password",
		"printf %s \"$PASSWORD\" | relay user set anna --password-stdin",
	},
	"user delete": {
		"relay user delete anna --yes",
		"relay user delete bob --yes",
	},
	"apply": {
		"relay apply /etc/relay/applications.yml --dry-run",
		"relay apply /etc/relay/applications.yml --yes --json",
	},
	"messages list": {
		"relay messages list --state blocked,dead --since 7d",
		"relay messages list --app backup --search failed -n 5",
	},
	"messages show": {
		"relay messages show 25",
		"relay messages show 25 --json",
	},
	"messages withdraw": {
		"relay messages withdraw 25 26",
		"relay messages withdraw --app backup --state queued,blocked --dry-run",
	},
	"messages redeliver": {
		"relay messages redeliver 25",
		"relay messages redeliver --state dead --since 24h --yes",
	},
	"send": {
		"RELAY_URL=https://relay.example.org relay send --title Backup '**12 GB** in 3 minutes'",
		"{ echo '```'; df -h /; echo '```'; } | relay send --title Disk --priority high --wait 10s",
	},
	"doctor": {
		"relay doctor",
		"relay doctor --json --url https://relay.example.org",
	},
	"health": {
		"relay health",
		"relay health --json --url http://relay:8080",
	},
	"recovery-key": {
		"relay recovery-key >recovery-key",
		"relay recovery-key --json",
	},
	"version": {
		"relay version",
		"relay version --json",
	},
}
