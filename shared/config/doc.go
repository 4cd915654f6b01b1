// Package config loads one typed struct tree from defaults, a YAML file and
// environment variables, in that order. Both services load their configuration
// with it.
//
//	type Config struct {
//		HTTP HTTP  `key:"http" doc:"The server for clients."`
//		Auth *Auth `key:"auth"`
//	}
//
//	cfg := Default()
//	report, err := config.Load(&cfg, config.Options{Prefix: "REGISTRY", File: path, Environ: os.Environ()})
//
// # Tags
//
//	key      the name in the file, lower case; a field without it is not a setting
//	doc      one sentence or two for the generated reference
//	alias    other names of the key, separated by commas
//	choices  values allowed, separated by commas; compared without regard to case
//	min      0 or 1: the least value of a number, size or duration
//	why      on a [Dead] or [Refused] key: what to tell the operator
//
// # Presence and defaults
//
// The value given to Load holds every default, also those inside optional
// sections (pointers to structs) and of list elements (the first element of a
// list of structs is the pattern for each element that is given). A section
// that is a pointer is nil after Load unless the file or the environment
// mentions it; mentioned without content it is there with its defaults. The
// name of an optional section may stand for the section around it: storage:
// inmemory is storage: {inmemory: {}}. A key without a value keeps its default.
//
// # Environment
//
// A setting's variable is the prefix and the path in upper case, joined by
// underscores: http.draintimeout is REGISTRY_HTTP_DRAINTIMEOUT. Lists take an
// index (REGISTRY_HEALTH_TCP_0_ADDR), maps the key
// (REGISTRY_HTTP_HEADERS_X-Frame-Options='[DENY]'; a key already present keeps
// its spelling, one written all in capitals is lower-cased). A value is parsed
// as YAML and replaces what was there; text wanted as a string is taken as it
// is unless it is quoted. An empty value counts as unset. A section applies
// before what is in it, so longer names refine REGISTRY_STORAGE=inmemory.
package config
