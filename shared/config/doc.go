// Package config loads one typed struct tree from defaults, a YAML file and
// environment variables, in that order. Both services load their configuration
// with it.
//
// A service declares a struct, fills it in one function and loads over it:
//
//	type Config struct {
//		HTTP HTTP  `key:"http"`
//		Auth *Auth `key:"auth" scalar:"driver"`
//	}
//
//	type HTTP struct {
//		Addr   string         `key:"addr" doc:"Address to listen on."`
//		Secret config.Secret  `key:"secret" doc:"Signs upload state."`
//		Drain  time.Duration  `key:"draintimeout" doc:"Time given to open requests at the end."`
//	}
//
//	cfg := Default()
//	report, err := config.Load(&cfg, config.Options{
//		Prefix:  "REGISTRY",
//		File:    path,
//		Environ: os.Environ(),
//	})
//
// The report has the warnings to log, the origin of each value, and writes the
// loaded configuration with both for people ([Report.Show]). [Walk] lists every
// setting there can be, for a reference.
//
// # Tags
//
//	key      the name in the file, lower case; a field without it is not a setting
//	doc      one sentence or two for the generated reference
//	alias    other names of the key in the file and the environment, separated by commas
//	env      other names of the key in the environment only; "-" means not settable there
//	scalar   on a section: a single word instead of it names the optional section inside
//	         (storage: inmemory is storage: {inmemory: {}})
//	choices  values allowed, separated by commas; compared without regard to case
//	min      0 or 1: the least value of a number, size or duration
//	empty    "ok" on a [Refused] key: a value without content is taken for absent
//	why      on a [Dead] or [Refused] key: what to tell the operator
//	to       on a [Moved] key: the path that took its place
//
// # Presence and defaults
//
// The value given to Load holds every default, also those inside optional
// sections (pointers to structs) and of list elements (the first element of a
// list of structs is the pattern for each element that is given). A section
// that is a pointer is nil after Load unless the file or the environment
// mentions it; mentioned without content it is there with its defaults. So
// defaults never make a section look chosen, and an emptied section never
// looks absent. A leaf without a value (`addr:`) keeps its default.
//
// # Environment
//
// A setting's variable is the prefix and the path in upper case, joined by
// underscores: http.draintimeout is REGISTRY_HTTP_DRAINTIMEOUT. Lists take an
// index (REGISTRY_HEALTH_TCP_0_ADDR; an index equal to the length appends),
// maps the key (REGISTRY_HTTP_HEADERS_X-Frame-Options='[DENY]'; a key already
// present keeps its spelling, one written all in capitals is lower-cased).
// Variables apply in the order of their names, a section before what is in it,
// so REGISTRY_STORAGE=inmemory can be refined by longer names. A value is
// parsed as YAML and replaces what was there; text wanted as a string is taken
// as it is unless it is quoted. An empty value counts as unset. Of a secret and the
// file of the same secret, the variable counts rather than the file, and of two variables the
// one with _FILE. Variables that
// container platforms inject for services of the same name are passed over.
//
// # Mistakes
//
// Every unknown key, unknown variable inside a known section, value of the
// wrong kind and failed validation is a [Problem] naming its key, where it was
// given and what is near it; Load returns all of them joined. When the loaded
// value has a method `Validate() error`, Load calls it.
package config
