// Package collect frees the bytes that no manifest needs any more, while
// registries serve and clients push.
//
// A writer renews what it is going to rely on (storage.Attempt); a collection deletes
// only what nobody has renewed since it began (storage.Collection). A run reads every
// repository and the bytes, in any order, and then deletes what nothing needs and nobody has
// renewed: manifests before what they need, links before bytes. A manifest that was
// renewed meanwhile stays with all that it needs.
//
// model_test.go has the protocol as a model with every interleaving;
// docs/decisions/0009-garbage-collection.md has the argument.
package collect
