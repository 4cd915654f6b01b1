package config

import (
	"time"

	"slipway/shared/config"
)

// Storage selects exactly one driver, and holds the settings that all share.
type Storage struct {
	Filesystem *Filesystem    `key:"filesystem"`
	InMemory   *InMemory      `key:"inmemory" doc:"Keep everything in memory."`
	S3         *S3            `key:"s3" alias:"s3aws"`
	Azure      *Azure         `key:"azure" doc:"Azure Blob Storage."`
	GCS        *GCS           `key:"gcs" doc:"Google Cloud Storage."`
	Swift      config.Refused `key:"swift" why:"removed in distribution 3; use the store's S3 interface"`
	OSS        config.Refused `key:"oss" why:"removed in distribution 3; use the store's S3 interface"`

	Delete      Delete      `key:"delete"`
	Redirect    Redirect    `key:"redirect"`
	Cache       Cache       `key:"cache"`
	Maintenance Maintenance `key:"maintenance"`
	Tag         Tag         `key:"tag"`
}

// Filesystem keeps everything in files below one directory.
type Filesystem struct {
	RootDirectory string      `key:"rootdirectory" doc:"Directory of the images."`
	MaxThreads    config.Dead `key:"maxthreads" why:"reads come from the page cache and flushes are grouped, so there are no threads to limit"`
}

// InMemory has no parameters.
type InMemory struct{}

// Delete allows deletions.
type Delete struct {
	Enabled bool          `key:"enabled" doc:"Let clients delete manifests, tags and blobs."`
	Keep    time.Duration `key:"keep" min:"0" doc:"How long deletions can be undone; 0: they can't be."`
}

// Redirect is about sending clients to the object store itself.
type Redirect struct {
	Disable bool     `key:"disable" doc:"Serve blobs instead of redirecting to the object store."`
	Exclude []string `key:"exclude" doc:"Addresses or networks of clients that are never redirected."`
}

// Cache is about blob descriptors.
type Cache struct {
	BlobDescriptor     string      `key:"blobdescriptor" alias:"layerinfo" doc:"Has no effect: manifests are always cached in memory. Distribution's inmemory and redis are accepted."`
	BlobDescriptorSize config.Dead `key:"blobdescriptorsize" why:"what is remembered of blobs is bounded by itself"`
}

// Tag is about tags.
type Tag struct {
	ConcurrencyLimit config.Dead `key:"concurrencylimit" why:"the tags of a deleted manifest are looked up one after the other"`
}

// ObjectStore holds settings of object stores.
type ObjectStore struct {
	Spool    string      `key:"spool" doc:"Local directory for unfinished uploads. Default: slipway-uploads in the temporary directory."`
	SpoolMax config.Size `key:"spoolmax" doc:"Limit of one upload there."`
}

// Drivers are the names of the drivers given.
func (s *Storage) Drivers() []string {
	var names []string
	if s.Filesystem != nil {
		names = append(names, "filesystem")
	}
	if s.InMemory != nil {
		names = append(names, "inmemory")
	}
	if s.S3 != nil {
		names = append(names, "s3")
	}
	if s.Azure != nil {
		names = append(names, "azure")
	}
	if s.GCS != nil {
		names = append(names, "gcs")
	}
	return names
}
