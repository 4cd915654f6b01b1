package main

import (
	"os/exec"
	"strings"
)

// Peer is a registry that can be started.
type Peer struct {
	Name    string
	Command string   // to be found in PATH, or a path
	Args    []string // {config} is the file's path
	Config  string   // {addr} and {root} are filled in
	Env     []string
}

const distributionConfig = `version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage:
  cache: {blobdescriptor: inmemory}
  filesystem: {rootdirectory: "{root}"}
  delete: {enabled: true}
http: {addr: "{addr}", secret: shared-by-all-replicas}
`

const zotConfig = `{"storage": {"rootDirectory": "{root}", "gc": false, "commit": true},
"http": {"address": "{host}", "port": "{port}"}, "log": {"level": "error"}}
`

const (
	oursName          = "slipway"
	distribution3Name = "distribution 3"
)

// Ours is the registry at the path.
func Ours(path string) Peer {
	return Peer{Name: oursName, Command: path, Args: []string{"serve", "{config}"}, Config: distributionConfig}
}

// Installed are the other registries that PATH has.
func Installed() []Peer {
	serve := []string{"serve", "{config}"}
	var found []Peer
	for _, p := range []Peer{
		{Name: distribution3Name, Command: "distribution3", Args: serve, Config: distributionConfig, Env: []string{"OTEL_TRACES_EXPORTER=none"}},
		{Name: "distribution 2", Command: "docker-registry", Args: serve, Config: distributionConfig},
		{Name: "zot", Command: "zot", Args: serve, Config: zotConfig},
	} {
		if _, err := exec.LookPath(p.Command); err == nil {
			found = append(found, p)
		}
	}
	return found
}

func (p Peer) config(addr, root string) string {
	host, port, _ := strings.Cut(addr, ":")
	return strings.NewReplacer("{addr}", addr, "{root}", root, "{host}", host, "{port}", port).Replace(p.Config)
}
