package main

import "slipway/shared/command"

// examples are what `relay COMMAND --help` shows. Tests run them.
var examples = command.Examples{
	"serve": {
		"relay serve /etc/relay/config.yml",
		"RELAY_LOGGING_LEVEL=debug relay serve /etc/relay/config.yml",
	},
	"setup": {
		"relay setup --config /etc/relay/config.yml --secrets /etc/relay/secrets --registration-secret-file /srv/synapse/registration.secret",
		"relay setup --config /etc/relay/config.yml --secrets /etc/relay/secrets --app backup",
	},
	"setup show": {
		"relay setup show --config /etc/relay/config.yml --secrets /etc/relay/secrets",
		"RELAY_CONFIG=/etc/relay/config.yml relay setup show --secrets /etc/relay/secrets",
	},
	"import pushbits": {
		"relay import pushbits /srv/pushbits.db --dry-run --config /etc/relay/config.yml",
		"relay import pushbits /srv/pushbits.db --config /etc/relay/config.yml",
	},
	"migrate": {
		"relay migrate --from sqlite:/var/lib/relay/relay.db --to 'postgres:host=db dbname=relay user=relay' --password-file /run/secrets/db",
		"relay migrate --from postgres://relay@db/relay --to sqlite:/var/lib/relay/copy.db --password-file /run/secrets/db",
	},
	"backup": {
		"relay backup saved.db --config /etc/relay/config.yml",
		"relay backup - --config /etc/relay/config.yml | gzip >saved.db.gz",
	},
	"config check": {
		"relay config check /etc/relay/config.yml",
		"relay config check --config /etc/relay/config.yml",
	},
	"config show": {
		"relay config show /etc/relay/config.yml",
		"RELAY_HTTP_LISTENADDRESS=:8081 relay config show /etc/relay/config.yml",
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
		"relay app create grafana --config /etc/relay/config.yml",
		"relay app create deploys --room '#deploys:example.org' --priority 1 --quiet --config /etc/relay/config.yml",
	},
	"app list": {
		"relay app list --config /etc/relay/config.yml",
		"RELAY_CONFIG=/etc/relay/config.yml relay app list",
	},
	"app token": {
		"relay app token backup --grace 24h --config /etc/relay/config.yml",
		"relay app token backup --quiet --config /etc/relay/config.yml",
	},
	"app secret": {
		"relay app secret backup --config /etc/relay/config.yml",
		"relay app secret backup --remove --config /etc/relay/config.yml",
	},
	"app rename": {
		"relay app rename backup nightly-backup --config /etc/relay/config.yml",
		"relay app rename 1 backup --config /etc/relay/config.yml",
	},
	"app set": {
		"relay app set backup --heartbeat 24h --heartbeat-grace 1h --config /etc/relay/config.yml",
		"relay app set backup --critical-retry 5m --config /etc/relay/config.yml",
		"relay app set 1 --heartbeat 0 --config /etc/relay/config.yml",
	},
	"app delete": {
		"relay app delete backup --config /etc/relay/config.yml",
		"relay app delete 2 --config /etc/relay/config.yml",
	},
	"user list": {
		"relay user list --config /etc/relay/config.yml",
		"RELAY_CONFIG=/etc/relay/config.yml relay user list",
	},
	"user create": {
		"relay user create carol --matrix-id @carol:example.org --config /etc/relay/config.yml",
		"printf %s \"$PASSWORD\" | relay user create dave --admin --password-stdin --config /etc/relay/config.yml",
	},
	"user update": {
		"relay user update anna --matrix-id @anna:example.org --config /etc/relay/config.yml",
		"relay user update anna --admin --config /etc/relay/config.yml",
	},
	"user password": {
		"relay user password anna --config /etc/relay/config.yml",
		"printf %s \"$PASSWORD\" | relay user password anna --password-stdin --config /etc/relay/config.yml",
	},
	"user delete": {
		"relay user delete anna --config /etc/relay/config.yml",
		"RELAY_CONFIG=/etc/relay/config.yml relay user delete bob",
	},
	"messages list": {
		"relay messages list --state blocked,dead --since 24h --config /etc/relay/config.yml",
		"relay messages list --app backup --search failed -n 5 --config /etc/relay/config.yml",
	},
	"messages show": {
		"relay messages show 25 --config /etc/relay/config.yml",
		"RELAY_CONFIG=/etc/relay/config.yml relay messages show 25",
	},
	"messages cancel": {
		"relay messages cancel 25 26 --config /etc/relay/config.yml",
		"relay messages cancel --app backup --state queued,blocked --config /etc/relay/config.yml",
	},
	"messages retry": {
		"relay messages retry 25 --config /etc/relay/config.yml",
		"relay messages retry --state dead --since 24h --config /etc/relay/config.yml",
	},
	"send": {
		"RELAY_URL=https://relay.example.org relay send --title Backup '**12 GB** in 3 minutes'",
		"{ echo '```'; df -h /; echo '```'; } | relay send --title Disk --priority 1 --wait 10s",
	},
	"doctor": {
		"relay doctor --config /etc/relay/config.yml",
		"relay doctor --config /etc/relay/config.yml --url https://relay.example.org",
	},
	"health": {
		"relay health --config /etc/relay/config.yml",
		"relay health --url http://relay:8080 --config /etc/relay/config.yml",
	},
	"recovery-key": {
		"relay recovery-key --config /etc/relay/config.yml",
		"RELAY_CONFIG=/etc/relay/config.yml relay recovery-key",
	},
	"version": {
		"relay version",
		"relay version --json",
	},
}
