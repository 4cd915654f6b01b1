package config

import (
	"time"

	"slipway/shared/config"
)

// Auth is who may do what; without it everybody may do everything.
type Auth struct {
	HTPasswd *HTPasswd      `key:"htpasswd"`
	None     *None          `key:"none" doc:"Let everybody do everything, said in so many words."`
	Token    config.Later   `key:"token" doc:"Bearer tokens of a token server."`
	Silly    config.Refused `key:"silly" why:"it lets in whoever sends any Authorization header; write htpasswd, or none to mean it"`
}

// HTPasswd checks user names and passwords against a file.
type HTPasswd struct {
	Realm         string        `key:"realm" doc:"Realm told to clients that must log in. Required."`
	Path          string        `key:"path" doc:"File of users and bcrypt hashes, made by registry htpasswd. Required; read again when it changes."`
	AnonymousPull bool          `key:"anonymouspull" doc:"Let everybody pull; pushing and deleting needs a login. Docker's engine cannot pull without a login then (it would need a token server); containerd, podman, skopeo and crane can."`
	CacheTTL      time.Duration `key:"cachettl" doc:"How long a password that was right is remembered, so that not every request costs a bcrypt; 0 remembers none."`
}

// None has no parameters.
type None struct{}
