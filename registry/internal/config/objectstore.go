package config

import "slipway/shared/config"

// ObjectStore is how an object store is used.
type ObjectStore struct {
	Spool    string      `key:"spool" doc:"Local directory for unfinished uploads. Default: slipway-uploads in the temporary directory."`
	SpoolMax config.Size `key:"spoolmax" doc:"Limit of one upload there."`
}
