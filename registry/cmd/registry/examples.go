package main

import "slipway/shared/command"

// examples are what `registry COMMAND --help` shows. Tests run them.
var examples = command.Examples{
	"serve": {
		"registry serve /etc/docker/registry/config.yml",
		"REGISTRY_LOG_LEVEL=debug registry serve /etc/docker/registry/config.yml",
	},
	"health": {
		"registry health /etc/docker/registry/config.yml",
		"REGISTRY_CONFIGURATION_PATH=/etc/docker/registry/config.yml registry health",
	},
	"config check": {
		"registry config check /etc/docker/registry/config.yml",
		"registry config check --skip-files /etc/docker/registry/config.yml",
	},
	"config show": {
		"registry config show /etc/docker/registry/config.yml",
		"REGISTRY_HTTP_ADDR=:5001 registry config show /etc/docker/registry/config.yml",
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
		"printf %s \"$PASSWORD\" | registry htpasswd --password-stdin /etc/docker/registry/auth/htpasswd alice",
		"registry htpasswd --delete /etc/docker/registry/auth/htpasswd alice",
	},
	"version": {
		"registry version",
		"registry version --json",
	},
	"garbage-collect": {
		"registry garbage-collect --dry-run /etc/docker/registry/config.yml",
		"registry garbage-collect --delete-untagged /etc/docker/registry/config.yml",
	},
	"restore": {
		"registry restore --list /etc/docker/registry/config.yml web/app",
		"registry restore /etc/docker/registry/config.yml web/app:v1",
	},
	"retention plan": {
		"registry retention plan /etc/docker/registry/config.yml",
		"registry retention plan --all --json /etc/docker/registry/config.yml",
	},
	"retention apply": {
		"registry retention apply /etc/docker/registry/config.yml",
		"registry retention apply --json /etc/docker/registry/config.yml",
	},
	"verify": {
		"registry verify --rate 50MiB /etc/docker/registry/config.yml",
		"registry verify --repair /etc/docker/registry/config.yml",
	},
	"usage": {
		"registry usage /etc/docker/registry/config.yml",
		"registry usage --json /etc/docker/registry/config.yml",
	},
	"uploads list": {
		"registry uploads list /etc/docker/registry/config.yml",
		"registry uploads list --json /etc/docker/registry/config.yml",
	},
	"uploads purge": {
		"registry uploads purge --dry-run /etc/docker/registry/config.yml",
		"registry uploads purge --age 24h /etc/docker/registry/config.yml",
	},
	"export": {
		"registry export /etc/docker/registry/config.yml web/app:v1 app.tar",
		"registry export /etc/docker/registry/config.yml web/app web/proxy images/",
	},
	"import": {
		"registry import /etc/docker/registry/config.yml app.tar web/app",
		"registry import --merge /etc/docker/registry/config.yml images/ web/all",
	},
	"mirror sync": {
		"registry mirror sync /etc/docker/registry/config.yml",
		"registry mirror sync --platform linux/amd64 /etc/docker/registry/config.yml hub/library/alpine:3.20",
	},
	"events": {
		"registry events /etc/docker/registry/config.yml",
		"registry events --json /etc/docker/registry/config.yml",
	},
	"events drop": {
		"registry events drop relay /etc/docker/registry/config.yml",
		"REGISTRY_CONFIGURATION_PATH=/etc/docker/registry/config.yml registry events drop relay",
	},
	"access explain": {
		"registry access explain anonymous web/app pull /etc/docker/registry/config.yml",
		"registry access explain robot:ci-web web/app push /etc/docker/registry/config.yml",
		"registry access explain oidc:anna web/app push --group developers /etc/docker/registry/config.yml",
	},
	"robot create": {
		"registry robot create nightly --repositories 'web/**' --allow push,tag-move --expires 2160h --note 'GitHub, acme/web' /etc/docker/registry/config.yml",
		"registry robot create mirror --repositories '**' --allow pull,list --json /etc/docker/registry/config.yml",
	},
	"robot list": {
		"registry robot list /etc/docker/registry/config.yml",
		"registry robot list --json /etc/docker/registry/config.yml",
	},
	"robot revoke": {
		"registry robot revoke ci-web /etc/docker/registry/config.yml",
		"REGISTRY_CONFIGURATION_PATH=/etc/docker/registry/config.yml registry robot revoke backup",
	},
}
