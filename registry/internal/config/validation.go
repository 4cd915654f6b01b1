package config

import "slipway/shared/config"

// Validation holds the checks of pushed manifests.
type Validation struct {
	Enabled   config.Dead        `key:"enabled" why:"validation is on unless validation.disabled says otherwise"`
	Disabled  bool               `key:"disabled" doc:"Skip the checks of URLs and of index contents."`
	Manifests ValidatedManifests `key:"manifests"`
}

// ValidatedManifests groups the checks by their subject.
type ValidatedManifests struct {
	URLs    URLs    `key:"urls"`
	Indexes Indexes `key:"indexes"`
}

// URLs are regular expressions for the URLs of layers that are stored elsewhere.
type URLs struct {
	Allow []string `key:"allow" doc:"Regular expressions that a layer's URL must match."`
	Deny  []string `key:"deny" doc:"Regular expressions; a layer's URL must match none of them."`
}

// Indexes says which children of an index must be there.
type Indexes struct {
	Platforms    string     `key:"platforms" choices:"all,none,list" doc:"Images of an index that must exist."`
	PlatformList []Platform `key:"platformlist"`
}

// Platform is one an index may not lack.
type Platform struct {
	Architecture string `key:"architecture" doc:"Such as amd64."`
	OS           string `key:"os" doc:"Such as linux."`
}
