package config

import "slipway/shared/config"

// ObjectStore is how an object store is used.
type ObjectStore struct {
	Shared   bool        `key:"shared" doc:"Several replicas may serve the same bucket: what a request has received is stored before it is answered. false for a single replica, which then needs fewer requests."`
	Spool    string      `key:"spool" doc:"Local directory for the bytes of uploads that are not stored yet; empty means slipway-uploads in the system's directory for temporary files."`
	SpoolMax config.Size `key:"spoolmax" doc:"Most of one upload that is kept there."`
}
