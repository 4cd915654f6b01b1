// Package oci holds the nouns of the OCI distribution specification 1.1 and of
// the Docker Registry HTTP API v2: repository names, tags, digests,
// descriptors, manifests and error codes. It does no I/O.
package oci
