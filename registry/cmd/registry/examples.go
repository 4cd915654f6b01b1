package main

import "slipway/shared/command"

// examples are the examples that `registry COMMAND --help` shows. Tests run them.
var examples = command.Examples{
	"serve": {
		"registry serve /etc/distribution/config.yml",
		"REGISTRY_LOG_LEVEL=debug registry serve /etc/distribution/config.yml",
	},
	"health": {
		"registry health",
		"registry health --config /etc/distribution/config.yml",
	},
	"config check": {
		"registry config check --config /etc/distribution/config.yml",
		"registry config check --skip-files",
	},
	"config show": {
		"registry config show",
		"REGISTRY_HTTP_ADDR=:5001 registry config show",
	},
	"config reference": {
		"registry config reference >settings.md",
		"registry config reference | grep maintenance",
	},
	"config schema": {
		"registry config schema >settings.schema.json",
		"registry config schema | grep maintenance",
	},
	"htpasswd": {
		"printf %s \"$PASSWORD\" | registry htpasswd --password-stdin /etc/distribution/auth/htpasswd alice",
		"registry htpasswd --delete /etc/distribution/auth/htpasswd alice",
	},
	"version": {
		"registry version",
		"registry version --json",
	},
	"garbage-collect": {
		"registry garbage-collect --dry-run /etc/distribution/config.yml",
		"registry garbage-collect --delete-untagged /etc/distribution/config.yml",
	},
	"restore": {
		"registry restore --list web/app",
		"registry restore web/app:v1",
	},
	"retention plan": {
		"registry retention plan",
		"registry retention plan --all --json",
	},
	"retention apply": {
		"registry retention apply --dry-run",
		"registry retention apply --yes --json",
	},
	"verify": {
		"registry verify --rate 50MiB",
		"registry verify --repair",
	},
	"usage": {
		"registry usage",
		"registry usage --json",
	},
	"uploads list": {
		"registry uploads list",
		"registry uploads list --json",
	},
	"uploads delete": {
		"registry uploads delete --dry-run",
		"registry uploads delete --age 1d --yes",
	},
	"export": {
		"registry export web/app:v1 app.tar",
		"registry export web/app web/proxy images/",
	},
	"import": {
		"registry import app.tar web/app",
		"registry import --merge images/ web/all",
	},
	"mirror sync": {
		"registry mirror sync",
		"registry mirror sync --platform linux/amd64 hub/library/alpine:3.20",
	},
	"replication list": {
		"registry replication list",
		"registry replication list --json",
	},
	"replication sync": {
		"registry replication sync",
		"registry replication sync backup --json",
	},
	"events list": {
		"registry events list",
		"registry events list --json",
	},
	"events delete": {
		"registry events delete relay",
		"registry events delete relay --yes",
	},
	"access explain": {
		"registry access explain anonymous web/app pull",
		"registry access explain robot:ci-web web/app push",
		"registry access explain oidc:anna web/app push --group developers",
	},
	"robot create": {
		"registry robot create nightly --repositories 'web/**' --allow push,tag-move --expires 90d --note 'GitHub, acme/web'",
		"registry robot create mirror --repositories '**' --allow pull,list --json",
	},
	"robot list": {
		"registry robot list",
		"registry robot list --json",
	},
	"robot delete": {
		"registry robot delete ci-web --yes",
		"registry robot delete backup --yes",
	},
}
