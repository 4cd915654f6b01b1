package imageinfo

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/oci"
)

// Layer is a layer of an image with what made it, or a file of another artifact.
type Layer struct {
	oci.Descriptor
	Title   string // the name of a file
	Command string
	Created time.Time
}

// Config is the part of an image's configuration that the pages show.
type Config struct {
	Created      time.Time `json:"created"`
	Author       string    `json:"author"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Variant      string    `json:"variant"`
	Config       struct {
		User         string              `json:"User"`
		ExposedPorts map[string]struct{} `json:"ExposedPorts"`
		Env          []string            `json:"Env"`
		Entrypoint   []string            `json:"Entrypoint"`
		Cmd          []string            `json:"Cmd"`
		Volumes      map[string]struct{} `json:"Volumes"`
		WorkingDir   string              `json:"WorkingDir"`
		Labels       map[string]string   `json:"Labels"`
		StopSignal   string              `json:"StopSignal"`
	} `json:"config"`
	History []struct {
		Created    time.Time `json:"created"`
		CreatedBy  string    `json:"created_by"`
		Comment    string    `json:"comment"`
		EmptyLayer bool      `json:"empty_layer"`
	} `json:"history"`
}

// Platform is the platform that the image is for.
func (c *Config) Platform() string {
	return platformText(&oci.Platform{OS: c.OS, Architecture: c.Architecture, Variant: c.Variant})
}

// IsConfig reports whether a type is that of the configuration of an image.
func IsConfig(mediaType string) bool {
	return mediaType == "application/vnd.oci.image.config.v1+json" || mediaType == "application/vnd.docker.container.image.v1+json"
}

// Pair is a setting with its value.
type Pair struct{ Key, Value string }

// LayersOf are the layers of an image with the commands that made them, if its history has one for
// each.
func LayersOf(m *oci.Manifest, c *Config) []Layer {
	layers := make([]Layer, len(m.Layers))
	for i := range m.Layers {
		layers[i] = Layer{Descriptor: m.Layers[i], Title: m.Layers[i].Annotations["org.opencontainers.image.title"]}
	}
	if c == nil {
		return layers
	}
	n := 0
	for i := range c.History {
		if !c.History[i].EmptyLayer {
			n++
		}
	}
	if n != len(layers) {
		return layers
	}
	n = 0
	for i := range c.History {
		if h := &c.History[i]; !h.EmptyLayer {
			layers[n].Command, layers[n].Created = command(h.CreatedBy), h.Created
			n++
		}
	}
	return layers
}

// command is the line of a Dockerfile, without what builders put around it.
func command(text string) string {
	text = strings.TrimPrefix(text, "/bin/sh -c #(nop) ")
	if run, ok := strings.CutPrefix(text, "/bin/sh -c "); ok {
		text = "RUN " + run
	}
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "# buildkit"))
}

// Settings are the defaults of a container of the image.
func (c *Config) Settings() []Pair {
	list := []Pair{}
	add := func(key string, values ...string) {
		for _, value := range values {
			if value != "" {
				list = append(list, Pair{key, value})
			}
		}
	}
	add("Platform", c.Platform())
	add("Entrypoint", arguments(c.Config.Entrypoint))
	add("Command", arguments(c.Config.Cmd))
	add("User", c.Config.User)
	add("Working directory", c.Config.WorkingDir)
	add("Port", slices.Sorted(maps.Keys(c.Config.ExposedPorts))...)
	add("Volume", slices.Sorted(maps.Keys(c.Config.Volumes))...)
	add("Environment", c.Config.Env...)
	add("Stop signal", c.Config.StopSignal)
	add("Author", c.Author)
	return list
}

func arguments(list []string) string {
	if len(list) == 0 {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(list) // texts always encode
	return strings.TrimSpace(b.String())
}

// ByKey is the settings and labels by keys that are the same in another image.
func (c *Config) ByKey() map[string]string {
	all := map[string]string{}
	for _, s := range c.Settings() {
		switch s.Key {
		case "Environment":
			key, value, _ := strings.Cut(s.Value, "=")
			all["Environment "+key] = value
		case "Port", "Volume":
			all[s.Key+" "+s.Value] = "yes"
		default:
			all[s.Key] = s.Value
		}
	}
	for key, value := range c.Config.Labels {
		all["Label "+key] = value
	}
	return all
}
