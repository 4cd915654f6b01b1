package config

import "slipway/shared/config"

// ObjectStore is how an object store is used.
type ObjectStore struct {
	Spool    string      `key:"spool" doc:"Local directory for uploads that aren't stored yet. Default: slipway-uploads in the system's temporary directory."`
	SpoolMax config.Size `key:"spoolmax" doc:"Most of one upload that is kept there."`
}
